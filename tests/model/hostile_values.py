"""Raw JSON and names that have broken chat stores before: the vocabulary of the generated logs."""

import hashlib

KEYS = (
    "agent:a1:team:t1",
    "agent:a2:team:t1",
    "agent:a1:team:t1:room:r1",
    "agent:a2:team:t1:room:r2",
    # Parsed from the right: the agent is `x:team:t2`, the team t1.
    "agent:x:team:t2:team:t1",
    "agent:a1:native",
    "agent:a1:codex",
    # Opaque keys that read like the subjects of a clear and of a fencing.
    "team:t1:general",
    "producer:00000000-0000-4000-8000-0000000000f0",
    "ünï céde 🙂",
)
TEAM_KEYS = KEYS[:4]
SCOPES = (("t1", "general"), ("t1", "room:r1"), ("t1", "room:r2"), ("t1", "*"), ("t2", "general"), ("t2", "*"))
PRODUCERS = tuple(f"00000000-0000-4000-8000-0000000000f{digit}" for digit in range(3))
RUNS = ("run-1", "run-2", "run-3", "run-4")
KEY_HASHES = tuple(hashlib.sha256(f"client key {number}".encode()).digest() for number in range(5))
SHARED_EVENT_IDS = tuple(f"0198a000000070008000000000000{digit:03}" for digit in range(4))

ENTRIES = (
    *(f'{{"entryId":"e{number}","text":"hello"}}' for number in range(6)),
    '{"entryId":"e1","text":"\\ud800 lone","n":1}',
    '{"entryId":"e2","text":"nul \\u0000"}',
    '{"entryId":"ignored","entryId":"e3"}',
    '{ "text" : [1, 2.50, 1e999, -0] ,\n "entryId" : "\\u0065\\u0034" }',
    '{"entryId":"é🙂","big":' + "9" * 400 + "}",
    '{"text":{"entryId":"e0"},"entryId":"nested"}',
    '{"entryId":"' + "x" * 1024 + '"}',
)
UNUSABLE_ENTRIES = (
    '{"entryId":""}',
    '{"entryId":"nul \\u0000"}',
    '{"entryId":"\\udfff"}',
    '{"entryId":"' + "x" * 1025 + '"}',
    '{"entryId":7}',
    '{"entryId":null}',
    '{"entryId":"e1","entryId":["e1"]}',
    "{}",
    "[]",
    '"entryId"',
    "null",
    "17",
)
MESSAGES = (
    '{"role":"user","content":"hi"}',
    '{"role":"assistant","content":"\\ud83d"}',
    '{ "role": "tool",\t"content": ["\\u0000", 1.0] }',
)
