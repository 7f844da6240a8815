"""Boots the appliance in qemu and proves what docs/appliance.md promises of it.

`image/test` is the command. `machine` is one boot, `bench` what lasts from one boot to the next,
`seed` and `slots` make what a box is given, `origin` is its upstream. The steps are in `serving`,
`inside`, `lasting`, `upgrading` and `bringing`; `main` says in which order. Only the standard
library: it runs where the image was built, outside the project's environment.
"""
