-- wrk script: every request saves one turn (user 200 B, assistant 1,200 B), ids unique over all threads.
local blob, run, keys, counter, id = nil, nil, 32, 0, 0
local threads = 0

function setup(thread)
  thread:set("id", threads)
  threads = threads + 1
end

function init(args)
  run = args[1]
  local file = io.open(args[2], "rb")
  blob = file:read("*a")
  file:close()
  math.randomseed(os.time() + id)
end

local function entry(key, name, role, size)
  local at = math.random(1, #blob - size)
  return '{"entryId":"' .. name .. '","role":"' .. role .. '","kind":"' .. role .. '","text":"' ..
    string.sub(blob, at, at + size - 1) .. '","sessionKey":"' .. key .. '","runId":null,"source":"runtime-chat",' ..
    '"timestampMs":1761650000000,"sequenceKey":1761650000000,"confirmed":true,"fingerprint":"' .. name .. '"}'
end

function request()
  counter = counter + 1
  local key = "agent:" .. run .. (counter % keys) .. ":native"
  local name = run .. "-" .. id .. "-" .. string.format("%012d", counter)
  local body = '{"sessionKey":"' .. key .. '","entries":[' ..
    entry(key, name .. "-u", "user", 200) .. "," .. entry(key, name .. "-a", "assistant", 1200) .. "]}"
  return wrk.format("POST", "/api/chat-history", { ["Content-Type"] = "application/json" }, body)
end

function done(summary, latency, requests)
  io.write(string.format("RESULT %d %d %d %d\n", summary.requests, summary.duration,
    summary.errors.status, summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout))
end
