// SPDX-License-Identifier: Apache-2.0

package target

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// SSHD is OpenSSH's server. It offers an RSA key that is no longer thought long enough,
// and old algorithms beside good ones.
type SSHD struct {
	// Host and Port are where it listens.
	Host string
	Port int
	// WeakKex and WeakMAC are the old algorithms that it offers.
	WeakKex, WeakMAC string

	dir      string
	listener *net.TCPListener
	binary   string
	wait     sync.WaitGroup
}

// nobody runs the server where this program is root: as root, sshd would want a folder
// below /run, and it has nobody to log in anyway.
const nobody = 65534

// StartSSHD starts a server of its own, beside one that this machine may have. Its
// host keys and settings are in a temporary folder.
func StartSSHD(ctx context.Context, binary string) (s *SSHD, err error) {
	dir, err := os.MkdirTemp("", "scanyard-sshd-")
	if err != nil {
		return nil, fmt.Errorf("start sshd: %w", err)
	}
	s = &SSHD{Host: loopback, WeakKex: "diffie-hellman-group14-sha1", WeakMAC: "hmac-sha1", dir: dir, binary: binary}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("start sshd: %w", err), os.RemoveAll(dir))
		}
	}()
	if err := s.configure(ctx); err != nil {
		return nil, err
	}
	l, err := listen()
	if err != nil {
		return nil, err
	}
	s.listener, s.Port = l, portOf(l)
	s.wait.Go(s.serve)
	return s, nil
}

// configure writes host keys and settings, and lets sshd itself check them.
func (s *SSHD) configure(ctx context.Context) error {
	config := []string{
		"KexAlgorithms curve25519-sha256," + s.WeakKex,
		"MACs hmac-sha2-256-etm@openssh.com," + s.WeakMAC,
		"Ciphers chacha20-poly1305@openssh.com,aes256-gcm@openssh.com",
		"AuthenticationMethods publickey", "PasswordAuthentication no", "UsePAM no", "PidFile none",
		// Scanners open more connections than people do.
		"MaxStartups 1000",
	}
	for _, key := range [][]string{{"ed25519"}, {"rsa", "-b", "2048"}} {
		path := filepath.Join(s.dir, "host_"+key[0])
		args := append([]string{"-q", "-N", "", "-f", path, "-t"}, key...)
		if out, err := exec.CommandContext(ctx, "ssh-keygen", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ssh-keygen: %w: %s", err, out)
		}
		config = append(config, "HostKey "+path)
	}
	path := filepath.Join(s.dir, "sshd_config")
	if err := os.WriteFile(path, []byte(strings.Join(config, "\n")+"\n"), 0o600); err != nil {
		return err
	}
	if os.Getuid() == 0 {
		if err := s.handOver(); err != nil {
			return err
		}
	}
	if out, err := s.command(ctx, "-t").CombinedOutput(); err != nil {
		return fmt.Errorf("check its settings: %w: %s", err, out)
	}
	return nil
}

// handOver gives the folder to nobody.
func (s *SSHD) handOver() error {
	files, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	errs := []error{os.Chown(s.dir, nobody, nobody)}
	for _, f := range files {
		errs = append(errs, os.Chown(filepath.Join(s.dir, f.Name()), nobody, nobody))
	}
	return errors.Join(errs...)
}

func (s *SSHD) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.binary, append([]string{"-f", filepath.Join(s.dir, "sshd_config"), "-E", os.DevNull}, args...)...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	return cmd
}

// serve hands each connection to an sshd of its own, as inetd would: so the port is
// taken before the first scan, and nothing is left behind.
func (s *SSHD) serve() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for {
		conn, err := s.listener.AcceptTCP()
		if err != nil {
			return // closed
		}
		s.wait.Go(func() { s.hand(ctx, conn) })
	}
}

func (s *SSHD) hand(ctx context.Context, conn *net.TCPConn) {
	defer conn.Close()
	file, err := conn.File()
	if err != nil {
		return // the scanner has left
	}
	defer file.Close()
	cmd := s.command(ctx, "-i")
	cmd.Stdin, cmd.Stdout = file, file
	// Nobody can log in, so every connection ends with an error.
	_ = cmd.Run()
}

// Close ends the server and removes its files.
func (s *SSHD) Close() error {
	err := s.listener.Close()
	s.wait.Wait()
	return errors.Join(err, os.RemoveAll(s.dir))
}
