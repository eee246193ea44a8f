// SPDX-License-Identifier: Apache-2.0

package trackers

import (
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"slices"

	"github.com/scanyard/scanyard/hooks/notification/channel"
	"github.com/scanyard/scanyard/hooks/sdk/delivery"
)

// trackerLabel is on every issue, so that they can be listed.
const trackerLabel = "scanyard"

// marker is at the end of an issue's text and names the finding.
func marker(key string) string { return "\n<!-- scanyard: " + key + " -->\n" }

var markers = regexp.MustCompile(`<!-- scanyard: ([0-9a-f-]{36}) -->`)

// markedKey is what an issue is about: the last marker, for what stands before may come from a scanner.
func markedKey(text string) string {
	all := markers.FindAllStringSubmatch(text, -1)
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1][1]
}

// issue is one that is there.
type issue struct {
	number int64
	open   bool
}

// issues are those of a tracker that this hook opened, read once.
type issues struct {
	byKey map[string]issue
	// list reads one page of issues, counted from 1, and says whether there are more.
	list func(ctx context.Context, t *channel.Task, page int) (found []listed, more bool, err error)
}

type listed struct {
	issue

	text string
}

// maxPages ends a list that never does.
const maxPages = 10_000

// find looks for the issue about a key. What was read once is believed, unless fresh says to read again.
func (i *issues) find(ctx context.Context, t *channel.Task, key string, fresh bool) (issue, bool, error) {
	if i.byKey == nil || fresh {
		i.byKey = map[string]issue{}
		for page := 1; page <= maxPages; page++ {
			found, more, err := i.list(ctx, t, page)
			if err != nil {
				i.byKey = nil
				return issue{}, false, err
			}
			for _, l := range found {
				if key := markedKey(l.text); key != "" {
					i.byKey[key] = l.issue
				}
			}
			if !more {
				break
			}
		}
	}
	found, ok := i.byKey[key]
	return found, ok, nil
}

// withLabel adds the label to those a template or setting gave, as a list.
func withLabel(labels any, label string) []any {
	list, _ := labels.([]any)
	if words, ok := labels.([]string); ok {
		for _, word := range words {
			list = append(list, word)
		}
	}
	if !slices.Contains(list, any(label)) {
		list = append(list, label)
	}
	return list
}

// errThere says that an earlier attempt was taken after all.
var errThere = errors.New("it is there already")

// create sends a request that must not be taken twice. Where an attempt ends without an answer that says so, the next
// one first asks whether it was taken.
func create(ctx context.Context, t *channel.Task, r *delivery.Request, value any, isThere func(context.Context) (bool, error)) (*delivery.Answer, error) {
	body, err := delivery.JSON(value)
	if err != nil {
		return nil, err
	}
	r.Body = &asking{Bytes: body, before: func() error {
		there, err := isThere(ctx)
		if err == nil && there {
			err = errThere
		}
		return err
	}}
	answer, err := t.Client.Do(ctx, r)
	if errors.Is(err, errThere) {
		return nil, nil // nothing was said, and nothing is wrong
	}
	return answer, err
}

// asking is a body that asks a question before it is sent again.
type asking struct {
	delivery.Bytes

	before func() error
	opened bool
}

// Open reads from the beginning.
func (a *asking) Open() (io.ReadCloser, error) {
	if a.opened {
		if err := a.before(); err != nil {
			return nil, err
		}
	}
	a.opened = true
	return a.Bytes.Open()
}

// ask reads JSON from an address.
func ask(ctx context.Context, t *channel.Task, address string, header http.Header, into any) (*delivery.Answer, error) {
	answer, err := t.Client.Do(ctx, &delivery.Request{
		Method: http.MethodGet, URL: address, Header: header, Accept: limitedStatus, Check: checkLimited,
	})
	if err != nil {
		return nil, err
	}
	return answer, answer.JSON(into)
}
