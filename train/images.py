"""The images of a run: opened, and parted in those to learn from and those to choose by."""

from sbnn_hw.datasets import ImageFolder, Images
from sbnn_hw.errors import ChoiceRejected
from sbnn_hw.train.config import TrainConfig
from sbnn_hw.train.data import TrainingImages, split_validation, to_tensors
from sbnn_hw.train.folder import open_folder
from sbnn_hw.train.parallel import world_size

__all__ = ["images_of", "images_to_train"]


def images_of(source: Images | ImageFolder, *, workers: int = 0) -> TrainingImages:
    """Return images as the loop takes them: from memory, or decoded by ``workers`` processes."""
    if isinstance(source, ImageFolder):
        return open_folder(source, workers=workers)
    return to_tensors(source)


def images_to_train(
    config: TrainConfig, images: Images | ImageFolder, validation: Images | None = None
) -> tuple[TrainingImages, TrainingImages]:
    """Return the images that a run learns from, and those that it is validated with.

    The latter are taken from the former, unless ``validation`` has them.
    """
    if config.batch % world_size():
        raise ChoiceRejected(
            f"Batch must be a multiple of the {world_size()} processes, not {config.batch}"
        )
    if isinstance(images, ImageFolder) and (config.crop or config.augmentation.affine):
        raise ChoiceRejected(
            "Image files are cropped at random sizes; train without --crop, --rotate, "
            "--shift, --scale and --shear"
        )
    if isinstance(images, ImageFolder) and config.jitter:
        raise ChoiceRejected("Noise needs values that are held in memory; train without --jitter")
    if isinstance(images, ImageFolder) and (config.window or config.teach_once):
        raise ChoiceRejected(
            "Windows and lessons need images that are held in memory; train without --window and "
            "--teach-once"
        )
    whole = images_of(images, workers=config.workers)
    if config.window > min(whole.shape[:2]):
        raise ChoiceRejected(
            f"Windows (--window) must be at most {min(whole.shape[:2])} pixels a side, not "
            f"{config.window}"
        )
    chosen: TrainingImages
    if validation is not None:
        training, chosen = whole, to_tensors(validation)
    else:
        held_out = min(config.validation, len(whole) // 5)
        seed = config.seed if config.validation_seed < 0 else config.validation_seed
        training, chosen = split_validation(whole, held_out, seed=seed)
    if len(training) < config.batch:
        raise ChoiceRejected(
            f"Batch must be at most the {len(training)} training images, not {config.batch}"
        )
    return training, chosen
