// SPDX-License-Identifier: Apache-2.0

// Package browser shows pages in a real Chromium, and tells what they must not do: ask others, complain, open dialogs, cut something off, or have
// texts that are hard to read.
//
//	test ─► Tab ─► Chromium ─► pages
//	          └─ what is wrong ─► test
//
// CHROMIUM names a browser that is not in PATH; PICTURES is a folder for pictures of what tabs show.
package browser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/scanyard/scanyard/tests/browser/chromium"
)

// Start starts the browser with an empty profile, and opens an address in its first tab; tabs are opened in the context. The end must be called, also
// after an error.
func Start(ctx context.Context, address string) (started context.Context, end func() error, err error) {
	end = func() error { return nil }
	path, err := chromium.Find()
	if err != nil {
		return nil, end, err
	}
	dir, err := os.MkdirTemp("", "scanyard-browser-")
	if err != nil {
		return nil, end, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.UserDataDir(dir),
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true), chromedp.Flag("ignore-certificate-errors", true), // those of tests are of their run
		chromedp.WSURLReadTimeout(2*time.Minute))
	allocator, cancel := chromedp.NewExecAllocator(ctx, options...)
	started, _ = chromedp.NewContext(allocator)
	end = func() error {
		err := chromedp.Cancel(started)
		if errors.Is(err, context.Canceled) {
			err = nil // the test has ended, and the browser with it
		}
		cancel()
		return errors.Join(err, os.RemoveAll(dir))
	}
	if err := chromedp.Do(started, chromedp.Navigate(address)); err != nil {
		return nil, end, fmt.Errorf("open %s in %s: %w", address, path, err)
	}
	return started, end, nil
}
