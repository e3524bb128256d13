"""The shipped definitions: models, the modules that they are made of, and templates of the kernels that these call.

`python -m kernelmill.dataset.catalogue --out DIR` packs them and the sources under dataset/kernels into a dataset.
"""

from kernelmill.dataset.catalogue.entries import Entry as Entry
from kernelmill.dataset.catalogue.entries import entries as entries
from kernelmill.dataset.catalogue.kernel import Kernel as Kernel
from kernelmill.dataset.catalogue.model import Model as Model
from kernelmill.dataset.catalogue.model import model as model
from kernelmill.dataset.catalogue.model import models as models
from kernelmill.dataset.catalogue.modules import Module as Module
from kernelmill.dataset.catalogue.modules import modules as modules
