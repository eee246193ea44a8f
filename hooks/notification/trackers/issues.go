// SPDX-License-Identifier: Apache-2.0

package trackers

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"

	"github.com/scanyard/scanyard/findings/compare"
	"github.com/scanyard/scanyard/hooks/notification/channel"
	"github.com/scanyard/scanyard/hooks/notification/message"
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

// tracker is what distinguishes one tracker whose issues have labels from another.
type tracker struct {
	address string // of the issues
	header  http.Header
	labels  []string
	// every is the query for issues in every state, open the state of an issue that is open, text the field of an issue's text.
	every, open, text string
	// more says whether another page follows the one that an answer has.
	more func(*delivery.Answer) bool
	// closing is sent to close an issue, by the method.
	method  string
	closing map[string]any
	// accept and check are those of the requests that write.
	accept []int
	check  func(*delivery.Answer) error
	// opened is told of each issue that was opened; it may be nil.
	opened func(*channel.Task, *entry)
}

// entry is an issue as a tracker says it. GitLab has other names for what GitHub calls number and body.
type entry struct {
	Number      int64  `json:"number"`
	IID         int64  `json:"iid"`
	State       string `json:"state"`
	Body        string `json:"body"`
	Description string `json:"description"`
	Labels      []any  `json:"labels"`
}

func (e *entry) issue(open bool) issue { return issue{cmp.Or(e.IID, e.Number), open} }

// issues opens an issue for each finding that has none, and closes those whose finding is gone.
type issues struct {
	tracker

	// byKey are the issues that this hook opened, read once.
	byKey map[string]issue
}

// Report opens or closes the issue of a finding.
func (i *issues) Report(ctx context.Context, t *channel.Task, e *message.Entry) error {
	known, there, err := i.find(ctx, t, e.Key, false)
	switch {
	case err != nil:
		return err
	case e.State == compare.Fixed && there && known.open:
		return i.close(ctx, t, e.Key, known)
	case e.State == compare.Fixed || there:
		return nil
	}
	value, err := t.Overridden(map[string]any{"title": e.Title, i.text: e.Text, "labels": withLabel(i.labels, trackerLabel)}, e)
	if err != nil {
		return err
	}
	value["labels"] = withLabel(value["labels"], trackerLabel)
	value[i.text] = message.PlainText(value[i.text]) + marker(e.Key)
	answer, err := create(ctx, t, &delivery.Request{URL: i.address, Header: i.header, Accept: i.accept, Check: i.check}, value,
		func(ctx context.Context) (bool, error) {
			_, there, err := i.find(ctx, t, e.Key, true)
			return there, err
		})
	if err != nil || answer == nil {
		return err
	}
	i.remember(t, e.Key, answer)
	return nil
}

// remember notes the new issue. What cannot be read of the answer changes nothing: the issue is there.
func (i *issues) remember(t *channel.Task, key string, answer *delivery.Answer) {
	var created entry
	if answer.JSON(&created) != nil {
		return
	}
	i.byKey[key] = created.issue(true)
	if i.opened != nil {
		i.opened(t, &created)
	}
}

func (i *issues) close(ctx context.Context, t *channel.Task, key string, known issue) error {
	body, err := delivery.JSON(i.closing)
	if err != nil {
		return err
	}
	_, err = t.Client.Do(ctx, &delivery.Request{
		Method: i.method, URL: i.address + "/" + strconv.FormatInt(known.number, 10), Header: i.header, Body: body,
		Accept: i.accept, Check: i.check,
	})
	if err == nil {
		i.byKey[key] = issue{known.number, false}
	}
	return err
}

// maxPages ends a list that never does.
const maxPages = 10_000

// find looks for the issue about a key. What was read once is believed, unless fresh says to read again.
func (i *issues) find(ctx context.Context, t *channel.Task, key string, fresh bool) (issue, bool, error) {
	if i.byKey == nil || fresh {
		i.byKey = map[string]issue{}
		for page := 1; page <= maxPages; page++ {
			more, err := i.read(ctx, t, page)
			if err != nil {
				i.byKey = nil
				return issue{}, false, err
			}
			if !more {
				break
			}
		}
	}
	found, ok := i.byKey[key]
	return found, ok, nil
}

// read reads one page of issues, counted from 1, and says whether there are more.
func (i *issues) read(ctx context.Context, t *channel.Task, page int) (more bool, err error) {
	var entries []entry
	answer, err := ask(ctx, t, i.address+"?labels="+trackerLabel+"&"+i.every+"&per_page=100&page="+strconv.Itoa(page), i.header, &entries)
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		if key := markedKey(cmp.Or(e.Description, e.Body)); key != "" {
			i.byKey[key] = e.issue(e.State == i.open)
		}
	}
	return i.more(answer), nil
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
