"""Finds reference cycles: objects that cannot be reached, and that only garbage collection would free.

They are found with the collector off, so that each belongs to the line that was played last. What is reported of a
cycle is its types; an exception in it mostly means that a frame keeps the exception whose traceback has the frame.
"""

import gc
import types
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

#: Parts of cycles of which only their owners tell something.
_PLAIN = (dict, list, tuple, set, types.CellType, types.BuiltinMethodType)


@contextmanager
def collector_off() -> Iterator[None]:
    """Collect nothing in the block but by `cycles`, and nothing that is there already."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.enable()
        gc.collect()
        gc.freeze()  # again, as tests/conftest.py does


def cycles() -> list[str]:
    """Collect, and return what each cycle consisted of, sorted."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
    finally:
        gc.set_debug(0)
    names = sorted({", ".join(sorted({_name(part) for part in cycle})) for cycle in _components(gc.garbage)})
    if gc.garbage:
        gc.garbage.clear()
        gc.collect()
    return names


def _name(part: object) -> str:
    if isinstance(part, types.FunctionType | types.MethodType | types.CoroutineType | types.GeneratorType):
        return part.__qualname__
    if isinstance(part, types.FrameType):
        return f"frame of {part.f_code.co_qualname}"
    return type(part).__qualname__


def _components(objects: Iterable[object]) -> Iterator[list[object]]:
    """Yield the strongly connected components of more than one object, without plain containers."""
    by_id = {id(item): item for item in objects}
    referents = {key: [id(other) for other in gc.get_referents(item)] for key, item in by_id.items()}
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    path: list[int] = []
    for root in by_id:
        work = [] if root in index else [(root, iter(referents[root]))]
        for key, _ in work:
            index[key] = low[key] = len(index)
            path.append(key)
        while work:
            key, others = work[-1]
            for other in others:
                if other in by_id and other not in index:
                    index[other] = low[other] = len(index)
                    path.append(other)
                    work.append((other, iter(referents[other])))
                    break
                if other in path:
                    low[key] = min(low[key], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[key])
                if low[key] == index[key]:
                    component = path[path.index(key) :]
                    del path[path.index(key) :]
                    if len(component) > 1:
                        yield [by_id[k] for k in component if not isinstance(by_id[k], _PLAIN)]
