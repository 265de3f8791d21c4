"""Images that models make: of noise, and of whatever tells what shall be in them."""
