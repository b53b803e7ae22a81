-- redis-lua: goes through the scenario.
local redis = require 'redis'

local port, orders = arg[1], arg[2]
local billing, audit = orders .. '-billing', orders .. '-audit'
for _, name in ipairs { 'publish', 'receive', 'ack', 'nosuch' } do
  redis.commands[name] = redis.command(name:upper())
end

local function say(...)
  local words = {}
  for n, word in ipairs { ... } do words[n] = word == true and 'OK' or tostring(word) end
  print(table.concat(words, ' '))
  io.stdout:flush()
end

local function refusal(act)
  local is_done, refused = pcall(act)
  return is_done and 'nothing was refused' or refused
end

local function column(messages, n)
  local values = {}
  for _, message in ipairs(messages) do values[#values + 1] = message[n] end
  return values
end

local client = redis.connect('127.0.0.1', tonumber(port))
say('publish', client:publish(orders, 'first'))
local published = client:pipeline(function(pipeline)
  for n = 0, 8 do pipeline:publish(orders, 'm' .. n) end
end)
say('pipeline', unpack(published))
local received = client:receive(orders, 'COUNT', 10)
say('receive', unpack(column(received, 2)))
say('ack', unpack(client:ack(orders, unpack(column(received, 1)))))

client:publish(orders, 'second')
-- docs:
local receipt, payload = unpack(client:receive(orders, 'WAIT', 20)[1])
local replies = client:transaction(function(transaction)
  transaction:publish(billing, payload)
  transaction:publish(audit, payload)
  transaction:ack(orders, receipt)
end)
-- docs end
say('exec', unpack(replies))
say('unknown', refusal(function()
  client:transaction(function(transaction)
    transaction:publish(billing, 'never')
    transaction:nosuch()
  end)
end))
client = redis.connect('127.0.0.1', tonumber(port)) -- after an error, this client is in the middle of the transaction
say('refused', refusal(function()
  client:transaction(function(transaction)
    transaction:publish(billing, 'never')
    transaction:ack(orders, receipt)
  end)
end))
client = redis.connect('127.0.0.1', tonumber(port))
client:multi()
client:publish(billing, 'never')
say('discard', client:discard())

client:publish(orders, 'third')
say('restart')
io.read()
local message
repeat -- this client does not connect again by itself
  local is_there = pcall(function() message = client:receive(orders)[1] end)
  if not is_there then
    local is_connected, another = pcall(redis.connect, '127.0.0.1', tonumber(port))
    client = is_connected and another or client
    os.execute('sleep 0.1')
  end
until message
say('again', message[2], client:ack(orders, message[1]), client:publish(orders, 'last'))
