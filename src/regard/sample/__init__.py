"""From noise to images: schedules of noise, spacings of time steps, solvers, guidance, inpainting. Knows no model."""
