"""Python imports this module at its start if the directory is in PYTHONPATH: it makes redis-py impatient.

redis-py 8 gives up when no reply has come for 5 s, unless its user sets `socket_timeout`. With this module the default
is a time that no socket takes, so that a program that relies on it fails as soon as it connects.
"""

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder, SourceFileLoader

DEFAULTS = "redis._defaults"


class HastyLoader(SourceFileLoader):
    def exec_module(self, module):
        super().exec_module(module)
        module.DEFAULT_SOCKET_TIMEOUT = -1  # which every socket refuses


class HastyFinder(MetaPathFinder):
    def find_spec(self, fullname, path, target=None):
        if fullname != DEFAULTS:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        spec.loader = HastyLoader(fullname, spec.origin)
        return spec


sys.meta_path.insert(0, HastyFinder())
