"""Files of a store that are damaged in every way: refused or reported, never read as if nothing were missing."""
