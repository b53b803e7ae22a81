# redis-rb: goes through the scenario.
require 'redis'

port, orders = ARGV
billing, audit = "#{orders}-billing", "#{orders}-audit"
client = Redis.new(port: port.to_i, timeout: 60, reconnect_attempts: 300, reconnect_delay: 0.1, reconnect_delay_max: 0.1)

def say(*words)
  puts words.join(' ')
  $stdout.flush
end

def refusal
  "nothing was refused: #{yield}"
rescue Redis::CommandError => e
  e.message
end

client.ping
say 'publish', client.publish(orders, 'first')
say 'pipeline', *client.pipelined { |pipeline| 9.times { |number| pipeline.publish(orders, "m#{number}") } }
received = client.call('RECEIVE', orders, 'COUNT', 10)
say 'receive', *received.map { |message| message[1] }
say 'ack', *client.call('ACK', orders, *received.map(&:first))

client.publish(orders, 'second')
# docs:
(receipt, payload), = client.call('RECEIVE', orders)
replies = client.multi do |transaction|
  transaction.publish(billing, payload)
  transaction.publish(audit, payload)
  transaction.call('ACK', orders, receipt)
end
# docs end
say 'exec', *replies
say 'unknown', refusal { client.multi { |tx| tx.publish(billing, 'never'); tx.call('NOSUCH') } }
say 'refused', refusal { client.multi { |tx| tx.publish(billing, 'never'); tx.call('ACK', orders, receipt) } }
client.multi # without a block, each command is sent at once
client.publish(billing, 'never')
say 'discard', client.discard

client.publish(orders, 'third')
say 'restart'
$stdin.gets
(receipt, payload), = client.call('RECEIVE', orders)
say 'again', payload, client.call('ACK', orders, receipt), client.publish(orders, 'last')
