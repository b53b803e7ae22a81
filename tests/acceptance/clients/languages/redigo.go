// redigo: goes through the scenario.
package main

import (
	"bufio"
	"fmt"
	"os"
	"time"

	"github.com/gomodule/redigo/redis"
)

var pool = &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial("tcp", "127.0.0.1:"+os.Args[1]) }}

func say(words ...interface{}) { fmt.Println(words...) }

func do(name string, arguments ...interface{}) interface{} {
	client := pool.Get()
	defer client.Close()
	reply, err := client.Do(name, arguments...)
	if err != nil {
		return err
	}
	return reply
}

func messages(reply interface{}) (receipts, payloads []interface{}) {
	values, _ := redis.Values(reply, nil)
	for _, value := range values {
		message, _ := redis.Values(value, nil)
		receipts = append(receipts, message[0])
		payloads = append(payloads, string(message[1].([]byte)))
	}
	return
}

func transaction(client redis.Conn, commands ...[]interface{}) interface{} {
	client.Send("MULTI")
	for _, command := range commands {
		client.Send(command[0].(string), command[1:]...)
	}
	replies, err := client.Do("EXEC")
	if err != nil {
		return err
	}
	return fmt.Sprint("nothing was refused: ", replies)
}

func texts(replies interface{}) []interface{} {
	values, _ := redis.Values(replies, nil)
	words := []interface{}{}
	for _, value := range values {
		if bytes, isBytes := value.([]byte); isBytes {
			value = string(bytes)
		}
		words = append(words, value)
	}
	return words
}

func main() {
	orders := os.Args[2]
	billing, audit := orders+"-billing", orders+"-audit"
	client := pool.Get()
	do("PING")
	say("publish", do("PUBLISH", orders, "first"))
	for number := 0; number < 9; number++ {
		client.Send("PUBLISH", orders, fmt.Sprint("m", number))
	}
	replies, _ := redis.Values(client.Do(""))
	say(append([]interface{}{"pipeline"}, replies...)...)
	receipts, payloads := messages(do("RECEIVE", orders, "COUNT", 10))
	say(append([]interface{}{"receive"}, payloads...)...)
	say(append([]interface{}{"ack"}, texts(do("ACK", append([]interface{}{orders}, receipts...)...))...)...)

	do("PUBLISH", orders, "second")
	// docs:
	received, _ := redis.Values(client.Do("RECEIVE", orders, "WAIT", 20))
	message, _ := redis.Values(received[0], nil)
	receipt, payload := message[0], message[1]
	client.Send("MULTI")
	client.Send("PUBLISH", billing, payload)
	client.Send("PUBLISH", audit, payload)
	client.Send("ACK", orders, receipt)
	replies, err := redis.Values(client.Do("EXEC"))
	// docs end
	if err != nil {
		say("exec", err)
	} else {
		say(append([]interface{}{"exec"}, replies...)...)
	}
	never := []interface{}{"PUBLISH", billing, "never"}
	say("unknown", transaction(client, never, []interface{}{"NOSUCH"}))
	say("refused", transaction(client, never, []interface{}{"ACK", orders, receipt}))
	client.Do("MULTI")
	client.Do("PUBLISH", billing, "never")
	discarded, _ := client.Do("DISCARD")
	say("discard", discarded)
	client.Close()

	do("PUBLISH", orders, "third")
	say("restart")
	bufio.NewReader(os.Stdin).ReadString('\n')
	for receipts, payloads = nil, nil; len(receipts) == 0; time.Sleep(100 * time.Millisecond) {
		receipts, payloads = messages(do("RECEIVE", orders)) // an error ends a connection of the pool
	}
	say("again", payloads[0], do("ACK", orders, receipts[0]), do("PUBLISH", orders, "last"))
}
