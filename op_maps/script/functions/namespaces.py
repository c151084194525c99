"""torch's modules as values: ``getattr(optim, name)``, ``datasets.__dict__[name]``."""

from types import SimpleNamespace

from .datasets import CIFAR10, CIFAR100, KMNIST, MNIST, SVHN, FakeData, FashionMNIST, ImageFolder
from .optimizers import LBFGS, SGD, Adadelta, Adagrad, Adam, Adamax, AdamW, NAdam, Optimizer, RAdam, RMSprop
from .schedules import (
    ChainedScheduler,
    ConstantLR,
    CosineAnnealingLR,
    CosineAnnealingWarmRestarts,
    CyclicLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    LRScheduler,
    MultiplicativeLR,
    MultiStepLR,
    OneCycleLR,
    PolynomialLR,
    ReduceLROnPlateau,
    SequentialLR,
    StepLR,
)

SCHEDULERS = SimpleNamespace(
    LRScheduler=LRScheduler,
    StepLR=StepLR,
    MultiStepLR=MultiStepLR,
    ExponentialLR=ExponentialLR,
    CosineAnnealingLR=CosineAnnealingLR,
    CosineAnnealingWarmRestarts=CosineAnnealingWarmRestarts,
    LambdaLR=LambdaLR,
    MultiplicativeLR=MultiplicativeLR,
    LinearLR=LinearLR,
    ConstantLR=ConstantLR,
    PolynomialLR=PolynomialLR,
    OneCycleLR=OneCycleLR,
    CyclicLR=CyclicLR,
    SequentialLR=SequentialLR,
    ChainedScheduler=ChainedScheduler,
    ReduceLROnPlateau=ReduceLROnPlateau,
)
OPTIMIZERS = SimpleNamespace(
    SGD=SGD,
    Adam=Adam,
    AdamW=AdamW,
    RMSprop=RMSprop,
    Adagrad=Adagrad,
    Adadelta=Adadelta,
    Adamax=Adamax,
    NAdam=NAdam,
    RAdam=RAdam,
    LBFGS=LBFGS,
    Optimizer=Optimizer,
    lr_scheduler=SCHEDULERS,
)
DATASETS = SimpleNamespace(
    MNIST=MNIST,
    FashionMNIST=FashionMNIST,
    KMNIST=KMNIST,
    CIFAR10=CIFAR10,
    CIFAR100=CIFAR100,
    SVHN=SVHN,
    ImageFolder=ImageFolder,
    FakeData=FakeData,
)
