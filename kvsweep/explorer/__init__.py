"""The explorer: settings are moved on a page, and curves follow.

- `controls`, `ranges`: what can be set, made from the schema.
- `messages`: what the page sends, validated.
- `of_sweep`, `of_store`: what is explored; settings in, datasets out. `samples` holds what was
  simulated so far, `stages` says what is simulated next.
- `answers`: datasets to what the page draws; `saving`: to a TOML file, a command, a figure.
- `worker`: the thread between the two. It knows no page: a function takes its answers.
- `server`, `notebook`: the page (`page/`) on loopback, and in a notebook.
"""
