// SPDX-License-Identifier: Apache-2.0

// Package chromium finds the browser of this machine, and has it make pictures. It is apart from package browser, so that a program which wants
// no more than that does not link what steers a browser.
package chromium

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// ErrNone says that this machine has no browser.
var ErrNone = errors.New("there is no Chromium")

// Find gives the path of the browser: the one that CHROMIUM names, else the first one in PATH. Without one the error is an ErrNone.
func Find() (string, error) {
	if name := os.Getenv("CHROMIUM"); name != "" {
		path, err := exec.LookPath(name)
		if err != nil {
			return "", fmt.Errorf("%w as CHROMIUM names it: %w", ErrNone, err)
		}
		return path, nil
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "headless-shell", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf(`%w: run "make test-tools", or name one in CHROMIUM`, ErrNone)
}

// Picture has the browser show an address in a window of that many pixels, and keeps what it shows in a file. The page must be this project's own:
// the browser's sandbox, which needs rights that root lacks in a container, is off.
func Picture(ctx context.Context, address, file string, width, height int) (err error) {
	path, err := Find()
	if err != nil {
		return err
	}
	home, err := os.MkdirTemp("", "scanyard-browser-")
	if err != nil {
		return fmt.Errorf("make folder of the browser: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(home)) }()
	if err := os.RemoveAll(file); err != nil {
		return fmt.Errorf("remove the picture before: %w", err)
	}
	cmd := exec.CommandContext(ctx, path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
		"--no-first-run", "--disable-sync", "--disable-component-update", "--disable-background-networking",
		"--user-data-dir="+home, fmt.Sprintf("--window-size=%d,%d", width, height), "--screenshot="+file, address)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", path, err, strings.TrimSpace(said.String()))
	}
	if _, err := os.Stat(file); err != nil {
		return fmt.Errorf("%s has made no picture: %w: %s", path, err, strings.TrimSpace(said.String()))
	}
	return nil
}
