// SPDX-License-Identifier: Apache-2.0

package persistenceazuremonitor

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/scanyard/scanyard/hooks/sdk"
	"github.com/scanyard/scanyard/hooks/sdk/delivery"
)

const (
	defaultPrefix = "SCB"
	// maxLogType is how long the name of a table may be.
	maxLogType = 100
	// resource is the path that is signed and asked for.
	resource    = "/api/logs"
	contentType = "application/json"
)

// collectorLimits stay far below the 30 MB that a request may have.
var collectorLimits = delivery.Limits{Count: 1000}

// collector sends to the HTTP Data Collector API.
type collector struct {
	address   string
	workspace string
	key       []byte
	prefix    string
	clean     bool
}

func newCollector(env sdk.Env) (sdk.Handler, error) {
	c := &collector{prefix: env.Get("MONITOR_LOGTYPE_PREFIX"), address: env.Get("MONITOR_ADDRESS")}
	var key string
	err := require(env, map[string]*string{"MONITOR_WORKSPACE_ID": &c.workspace, "MONITOR_SHARED_KEY": &key})
	if err != nil {
		return nil, err
	}
	if c.prefix == "" {
		c.prefix = defaultPrefix
	}
	if c.clean, err = env.Bool("MONITOR_LOGTYPE_CLEAN", false); err != nil {
		return nil, err
	}
	if c.key, err = decodeKey(key); err != nil {
		return nil, errors.New("MONITOR_SHARED_KEY is not base64") // not what is wrong with it: that would repeat it
	}
	what := "MONITOR_ADDRESS"
	if c.address == "" {
		what, c.address = "MONITOR_WORKSPACE_ID", "https://"+c.workspace+".ods.opinsights.azure.com"
	}
	target, err := delivery.ParseURL(c.address)
	if err != nil || (what == "MONITOR_WORKSPACE_ID" && target.Host != c.workspace+".ods.opinsights.azure.com") {
		return nil, fmt.Errorf("%s makes no address", what)
	}
	c.address = strings.TrimRight(c.address, "/")
	return c, nil
}

// decodeKey reads base64 of either alphabet, with or without its end, as JavaScript does.
func decodeKey(text string) ([]byte, error) {
	text = strings.NewReplacer("-", "+", "_", "/", "=", "").Replace(strings.TrimSpace(text))
	return base64.RawStdEncoding.DecodeString(text)
}

// Handle sends the findings.
func (c *collector) Handle(ctx context.Context, s *sdk.Session) error {
	client := s.Sender(delivery.Options{Remote: "Azure Monitor", Secrets: []string{base64.StdEncoding.EncodeToString(c.key)}})
	logType := c.logType(s.Scan().Spec.ScanType)
	return deliver(ctx, s, client, collectorLimits, func(*record) {}, func(ctx context.Context, body delivery.Body) error {
		date := s.Now().UTC().Format(http.TimeFormat)
		_, err := client.Do(ctx, &delivery.Request{
			URL: c.address + resource + "?api-version=2016-04-01",
			Header: http.Header{
				"Content-Type":  {contentType},
				"Log-Type":      {logType},
				"X-Ms-Date":     {date},
				"Authorization": {"SharedKey " + c.workspace + ":" + c.sign(body.Size(), date)},
			},
			Body: body, StatusIsEnough: true,
		})
		return err
	})
}

// logType is the name of the table, to which Azure adds _CL.
func (c *collector) logType(scanType string) string {
	name := c.prefix + "_" + scanType
	if !c.clean {
		return name
	}
	name = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_':
			return r
		}
		return '_'
	}, name)
	return name[:min(len(name), maxLogType)]
}

// sign makes the signature of a request. It covers the length of what is sent, not the content.
func (c *collector) sign(length int64, date string) string {
	mac := hmac.New(sha256.New, c.key)
	fmt.Fprintf(mac, "%s\n%d\n%s\nx-ms-date:%s\n%s", http.MethodPost, length, contentType, date, resource)
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
