"""Servers that only some of these tests need."""

from tests.integration.conftest import mysql_root

__all__ = ["mysql_root"]
