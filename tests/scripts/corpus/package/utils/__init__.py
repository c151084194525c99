from .misc import AverageMeter, accuracy, save_checkpoint, set_seed
