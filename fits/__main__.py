"""Everything: profiles first, then the roofline, which is tried on them."""

from __future__ import annotations

from fits import datacenter, roofline, serving, splitwise

for script in (serving, datacenter, splitwise, roofline):
    script.main()
