// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/scanyard/scanyard/tests/localcluster"
	"github.com/scanyard/scanyard/tests/localcluster/ports"
)

// Console is the release of the console, and where it will be. It is reached at a port of this machine, as there is no Ingress.
func Console(s localcluster.ObjectStore) (r Release, url string, err error) {
	free, err := ports.Free(2)
	if err != nil {
		return Release{}, "", fmt.Errorf("install the console: %w", err)
	}
	url = "http://127.0.0.1:" + strconv.Itoa(free[0])
	return Release{Chart: "console", Namespace: Namespace, Values: map[string]any{
		"url": url, "bindHost": "127.0.0.1", "ports": map[string]any{"http": free[0], "status": free[1]}, "storageHosts": []string{s.Endpoint},
	}}, url, nil
}

// ConsoleReady waits until the console lets people sign in.
func ConsoleReady(ctx context.Context, url string, timeout time.Duration) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, timeout, true, func(ctx context.Context) (bool, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/login", http.NoBody)
		if err != nil {
			return false, err
		}
		response, err := http.DefaultClient.Do(r)
		if response == nil { // it does not listen yet
			last = err
			return false, nil
		}
		last = fmt.Errorf("it answers %s", response.Status)
		return response.StatusCode == http.StatusOK, response.Body.Close()
	})
	if err != nil {
		return fmt.Errorf("the console does not answer: %w, %w", err, last)
	}
	return nil
}
