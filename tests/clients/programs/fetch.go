// SPDX-License-Identifier: MIT
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
)

func ask(method, path, field, value, body string) (*http.Response, []byte) {
	request, err := http.NewRequest(method, os.Getenv("BASE")+path, strings.NewReader(body))
	if err != nil {
		log.Fatal(err)
	}
	request.Header.Set(field, value)
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		log.Fatal(err)
	}
	defer reply.Body.Close()
	data, err := io.ReadAll(reply.Body)
	if err != nil {
		log.Fatal(err)
	}
	return reply, data
}

func show(reply *http.Response, data []byte) {
	fmt.Printf("{\"status\":%d,\"version\":%q,\"body\":%s}\n", reply.StatusCode, reply.Proto, json.RawMessage(data))
}

func main() {
	token := os.Getenv("TOKEN")
	show(ask("GET", "/echo", "Authorization", "Bearer "+token, ""))
	show(ask("POST", "/echo", "X-Api-Key", token, strings.Repeat("0123456789", 10000)))
	reply, data := ask("GET", "/blob", "X-Api-Key", token, "")
	fmt.Printf("{\"status\":%d,\"version\":%q,\"length\":%d}\n", reply.StatusCode, reply.Proto, len(data))
}
