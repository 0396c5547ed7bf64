"""The licence of an installed package as an SPDX expression, and whether a product under Apache-2.0 may depend on it.

What the package declares is taken: the expression of its metadata, or an older free text or classifier that this module
knows. What a wheel carries inside (numpy's OpenBLAS, confluent-kafka's librdkafka) is the word of its own files.
"""

from __future__ import annotations

from importlib.metadata import PackageMetadata, PackageNotFoundError, metadata

# Permissive: nothing is asked of whoever uses seamark but to keep the notices.
ALLOWED = {
    "0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT",
    "PSF-2.0", "Zlib",
}  # fmt: skip
# Packages say it in their own words until they have the metadata's newer field.
_SPELLED = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "Apache-2.0": "Apache-2.0",
    "BSD 2-Clause License": "BSD-2-Clause",
    "BSD-3-Clause": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "LGPL-2.1-or-later": "LGPL-2.1-or-later",
    "MIT": "MIT",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}
# Looked up by hand in the packages' own licence files: the metadata says only "BSD" or both of two, and colorama is for
# Windows, where the lock is never made.
_LOOKED_UP = {
    "colorama": "BSD-3-Clause",
    "jinja2": "BSD-3-Clause",
    "numba": "BSD-2-Clause",
    "pandas": "BSD-3-Clause",
    "py4j": "BSD-3-Clause",
    "uvloop": "Apache-2.0 OR MIT",
}


def licence_of(name: str) -> str | None:
    """The expression, or None for a package that does not say it in a way that is known here."""
    try:
        about = metadata(name)
    except PackageNotFoundError:
        return _LOOKED_UP.get(name)
    return declared_licence(about) or _LOOKED_UP.get(name)


def declared_licence(about: PackageMetadata) -> str | None:
    """What the metadata says by itself."""
    if "License-Expression" in about:
        return about["License-Expression"]
    words = [about["License"]] if "License" in about else []
    words += [line.rpartition(" :: ")[2] for line in about.get_all("Classifier") or [] if line.startswith("License ::")]
    found = {_SPELLED[word.strip()] for word in words if word.strip() in _SPELLED}
    return found.pop() if len(found) == 1 else None


def is_allowed(expression: str) -> bool:
    """Whether one of the alternatives has allowed terms only; parentheses are not read and so not allowed."""
    return any(ALLOWED.issuperset(choice.split(" AND ")) for choice in expression.split(" OR "))


def refusal(name: str, expression: str | None) -> str | None:
    """Why seamark must not depend on the package, as a sentence; None when it may."""
    if expression is None:
        return (
            f"{name} does not declare a licence that tools/licences.py knows: read its licence file, then add the "
            "spelling or the package there, or do without it"
        )
    if not is_allowed(expression):
        return f"{name} is under {expression}, which seamark's users would inherit: use another package"
    return None
