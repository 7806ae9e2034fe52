"""Ways of running a coupling's blueprint: fused by tables, literal."""
