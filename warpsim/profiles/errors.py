"""Errors of profiles; each message names the report or the launch, and what is needed."""

from __future__ import annotations


class ProfileError(ValueError):
    """A report cannot be read or replayed: it is damaged, lacks a section or the launch, or holds what is not supported."""


class MissingReaderError(RuntimeError):
    """The vendor's reader of reports is not installed; the message says how to install it."""
