// SPDX-License-Identifier: Apache-2.0

package target

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

// FTP is a running FTP login (RFC 959, 5.4), behind which there are no files.
type FTP struct {
	// Host and Port are where it listens.
	Host string
	Port int

	user, password string
	listener       net.Listener
	wait           sync.WaitGroup
}

// StartFTP starts a login that takes one password of one user.
func StartFTP(user, password string) (*FTP, error) {
	l, err := listen()
	if err != nil {
		return nil, err
	}
	f := &FTP{Host: loopback, Port: portOf(l), user: user, password: password, listener: l}
	f.wait.Go(f.serve)
	return f, nil
}

func (f *FTP) serve() {
	for {
		conn, err := f.listener.Accept()
		if err != nil {
			return // closed
		}
		f.wait.Go(func() {
			defer conn.Close()
			if conn.SetDeadline(time.Now().Add(patience)) == nil {
				f.talk(conn)
			}
		})
	}
}

// talk answers commands until the other side leaves.
func (f *FTP) talk(conn io.ReadWriter) {
	answer := func(text string) bool {
		_, err := io.WriteString(conn, text+"\r\n")
		return err == nil
	}
	// nmap and ncrack tell FTP by servers that they know.
	if !answer("220 (vsFTPd 3.0.5)") {
		return
	}
	user := ""
	in := bufio.NewScanner(conn)
	for in.Scan() {
		command, argument, _ := strings.Cut(in.Text(), " ")
		reply := "502 Command not implemented."
		switch strings.ToUpper(command) {
		case "USER":
			user, reply = argument, fmt.Sprintf("331 Password required for %s.", argument)
		case "PASS":
			reply = "530 Login incorrect."
			if user == f.user && argument == f.password {
				reply = fmt.Sprintf("230 User %s logged in.", user)
			}
		case "QUIT":
			answer("221 Goodbye.")
			return
		}
		if !answer(reply) {
			return
		}
	}
}

// Close ends the service.
func (f *FTP) Close() error {
	err := f.listener.Close()
	f.wait.Wait()
	return err
}
