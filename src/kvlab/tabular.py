"""What results that are tables share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


class Tabular:
    """Has a `table`; pandas, polars and others read it directly."""

    __slots__ = ()

    def table(self) -> pa.Table:
        """The result as a table, one row per thing that it tells of."""
        raise NotImplementedError

    def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True) -> Any:
        """The dataframe interchange protocol."""
        return self.table().__dataframe__(nan_as_null=nan_as_null, allow_copy=allow_copy)
