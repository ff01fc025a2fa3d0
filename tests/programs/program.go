// A program of WASI preview 1 that carries out the lines of its standard input. It knows nothing of Gristmill.
package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// Keeps what is allocated alive, so that the memory has to grow.
var kept [][]byte

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		switch word {
		case "args":
			fmt.Println(strings.Join(os.Args, " "))
		case "env":
			value, found := os.LookupEnv(rest)
			if !found {
				value = "not set"
			}
			fmt.Println(value)
		case "time":
			kept = append(kept, make([]byte, 8<<20))
			if time.Now().Year() > 2023 {
				fmt.Println("now")
			}
		case "socket":
			_, err := net.Dial("tcp", "127.0.0.1:80")
			fmt.Println(err != nil)
		case "exit":
			fmt.Fprintln(os.Stderr, "no such customer")
			code, _ := strconv.Atoi(rest)
			os.Exit(code)
		default:
			fmt.Println(lines.Text())
		}
	}
}
