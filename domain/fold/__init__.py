"""The fold (fold.md): what a log means. `judge` walks the records; the others say what each of them does.

`decode` and `structure` refuse what can't be an event; `touched` says what to load, `state` what was loaded; `turns`,
`sessions`, `endings` and `lease` apply one record; `work` is a batch in progress, `effects` what it changes.
"""
