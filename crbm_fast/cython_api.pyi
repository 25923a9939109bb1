from typing import Any

_C_API: Any
__pyx_capi__: dict[str, Any]
