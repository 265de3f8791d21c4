"""The small nets that these figures teach photographs of 32 x 32: 0.7 million weights each, or fewer."""

from collections.abc import Callable

from torch import nn

from regard.models import cait, deit, levit, mixer, perceiver, resnet, swin, swinv2, vit, volo
from regard.nn.mixers.windows import WindowAttention
from regard_lectures.vision.lessons import Course

COURSE = Course("photos", steps=3200)  # ten times all photographs
SEEDS = range(3)


def unshifted() -> nn.Module:
    net = swin.Swin(swin.PRESETS["swin-cifar"])
    for part in net.modules():
        if isinstance(part, WindowAttention):
            part.shift = 0
    return net


def second_swin() -> nn.Module:
    own = swin.PRESETS["swin-cifar"]
    return swinv2.SwinV2(
        swinv2.Config(
            image=own.image, patch=own.patch, classes=own.classes, dim=own.dim, depth=own.depth, heads=own.heads,
            hidden=own.hidden, window=own.window,
        )
    )  # fmt: skip


FRONT: dict[str, Callable[[], nn.Module]] = {
    "CNN": lambda: resnet.ResNet(
        resnet.Config(width=32, stem="small", layer="plain", depths=(1, 1, 2), dims=(32, 64, 128), classes=10)
    ),
    "ViT": lambda: vit.ViT(
        vit.Config(image=32, patch=4, classes=10, dim=96, depth=5, heads=3, hidden=384, pool="mean")
    ),
    "DeiT": lambda: deit.DeiT(deit.Config(image=32, patch=4, classes=10, dim=96, depth=5, heads=3, hidden=384)),
    "CaiT": lambda: cait.CaiT(
        cait.Config(image=32, patch=4, classes=10, dim=96, depth=4, looks=1, heads=3, hidden=384)
    ),
    "Swin": lambda: swin.Swin(swin.PRESETS["swin-cifar"]),
    "VOLO": lambda: volo.VOLO(
        volo.Config(
            image=32, patch=4, classes=10, stem_dim=16, fine_dim=48, outlookers=2, fine_heads=2, fine_hidden=96,
            dim=96, depth=4, heads=3, hidden=288, looks=1,
        )
    ),
    "LeViT": lambda: levit.LeViT(
        levit.Config(
            image=32, patch=4, classes=10, distilled=False, dim=(64, 96, 128), depth=(2, 2, 2), heads=(2, 3, 4),
            hidden=(128, 192, 256),
        )
    ),
    "Mixer": lambda: mixer.MLPMixer(
        mixer.Config(image=32, patch=4, classes=10, dim=96, depth=5, tokens=96, hidden=384)
    ),
    "Perceiver": lambda: perceiver.Perceiver(
        perceiver.Config(
            image=32, classes=10, bands=8, latents=32, dim=96, depth=2, repeats=2, looks=1, heads=3, hidden=384,
            cross_hidden=384, pool="mean",
        )
    ),
}  # fmt: skip


def lean_cnn(channels: int) -> nn.Module:
    """One and twice two convolutions of 3 x 3, with batch norm."""
    return resnet.ResNet(
        resnet.Config(
            width=16, stem="small", layer="plain", depths=(1, 2, 2), dims=(16, 32, 64), classes=10, channels=channels
        )
    )


def lean_vit(channels: int = 3, image: int = 32) -> nn.Module:
    """Half as dear as the one above."""
    return vit.ViT(
        vit.Config(
            image=image, patch=4, channels=channels, classes=10, dim=64, depth=4, heads=4, hidden=128, pool="mean"
        )
    )  # fmt: skip


NETS = {**FRONT, "Swin without shifts": unshifted, "Swin v2": second_swin}
