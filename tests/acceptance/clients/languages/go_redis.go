// go-redis: goes through the scenario.
package main

import (
	"bufio"
	"fmt"
	"os"
	"time"

	"gopkg.in/redis.v5"
)

var client = redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + os.Args[1], ReadTimeout: time.Minute})

func say(words ...interface{}) { fmt.Println(words...) }

func do(words ...interface{}) interface{} {
	command := redis.NewCmd(words...)
	client.Process(command)
	if command.Err() != nil {
		return command.Err()
	}
	return command.Val()
}

func messages(reply interface{}) (receipts, payloads []interface{}) {
	values, _ := reply.([]interface{})
	for _, value := range values {
		message := value.([]interface{})
		receipts = append(receipts, message[0])
		payloads = append(payloads, message[1])
	}
	return
}

func refusal(commands ...*redis.Cmd) interface{} {
	transaction := client.TxPipeline()
	for _, command := range commands {
		transaction.Process(command)
	}
	_, err := transaction.Exec()
	return err
}

func main() {
	orders := os.Args[2]
	billing, audit := orders+"-billing", orders+"-audit"
	do("PING")
	say("publish", do("PUBLISH", orders, "first"))
	pipeline, words := client.Pipeline(), []interface{}{"pipeline"}
	for number := 0; number < 9; number++ {
		pipeline.Process(redis.NewCmd("PUBLISH", orders, fmt.Sprint("m", number)))
	}
	commands, _ := pipeline.Exec()
	for _, command := range commands {
		words = append(words, command.(*redis.Cmd).Val())
	}
	say(words...)
	receipts, payloads := messages(do("RECEIVE", orders, "COUNT", 10))
	say(append([]interface{}{"receive"}, payloads...)...)
	acked, _ := do(append([]interface{}{"ACK", orders}, receipts...)...).([]interface{})
	say(append([]interface{}{"ack"}, acked...)...)

	do("PUBLISH", orders, "second")
	// docs:
	receive := redis.NewSliceCmd("RECEIVE", orders, "WAIT", 20)
	client.Process(receive)
	message := receive.Val()[0].([]interface{})
	receipt, payload := message[0], message[1]
	transaction := client.TxPipeline()
	transaction.Process(redis.NewCmd("PUBLISH", billing, payload))
	transaction.Process(redis.NewCmd("PUBLISH", audit, payload))
	transaction.Process(redis.NewCmd("ACK", orders, receipt))
	replies, err := transaction.Exec()
	// docs end
	words = []interface{}{"exec"}
	for _, command := range replies {
		words = append(words, command.(*redis.Cmd).Val())
	}
	if err != nil {
		words = []interface{}{"exec", err}
	}
	say(words...)
	never := func() *redis.Cmd { return redis.NewCmd("PUBLISH", billing, "never") }
	say("unknown", refusal(never(), redis.NewCmd("NOSUCH")))
	say("refused", refusal(never(), redis.NewCmd("ACK", orders, receipt)))
	discarded := client.TxPipeline()
	discarded.Process(never())
	if err := discarded.Discard(); err == nil {
		say("discard OK") // nothing was sent
	}

	do("PUBLISH", orders, "third")
	say("restart")
	bufio.NewReader(os.Stdin).ReadString('\n')
	for receipts, payloads = nil, nil; len(receipts) == 0; time.Sleep(100 * time.Millisecond) {
		receipts, payloads = messages(do("RECEIVE", orders)) // an error ends a connection of the pool
	}
	say("again", payloads[0], do("ACK", orders, receipts[0]), do("PUBLISH", orders, "last"))
}
