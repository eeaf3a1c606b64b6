// Command alertmanager checks configurations of Alertmanager with its own parser. It is not a part of ../monitoring,
// because Alertmanager brings the clients of all services that it can tell.
//
//	go run -C tools/examples ./alertmanager FILE...
package main

import (
	"fmt"
	"os"

	"github.com/prometheus/alertmanager/config"
)

func main() {
	for _, file := range os.Args[1:] {
		if _, err := config.LoadFile(file); err != nil {
			fmt.Fprintf(os.Stderr, "alertmanager: %s: %v\n", file, err)
			os.Exit(1)
		}
	}
}
