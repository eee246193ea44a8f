// SPDX-License-Identifier: Apache-2.0

package results

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/cli/follow"
)

// Kind is one of the stored results of a Scan.
type Kind int

const (
	// Findings is findings.json.
	Findings Kind = iota
	// Raw is the raw result of the scanner.
	Raw
	// Log is the end of the scanner's log.
	Log
)

// String returns the name of the result in messages.
func (k Kind) String() string {
	switch k {
	case Raw:
		return "raw result"
	case Log:
		return "scanner's log"
	default:
		return "findings"
	}
}

func (k Kind) link(s *executionv1.Scan) string {
	switch k {
	case Raw:
		return s.Status.RawResultDownloadLink
	case Log:
		return s.Status.ScannerLogDownloadLink
	default:
		return s.Status.FindingDownloadLink
	}
}

// margin is how long a link must still be valid, so that it does not expire before the download begins.
const margin = time.Minute

// expiry returns when a presigned link expires, if the link says so.
func expiry(link string) (time.Time, bool) {
	parsed, err := url.Parse(link)
	if err != nil {
		return time.Time{}, false
	}
	query := parsed.Query()
	for _, vendor := range []string{"X-Amz-", "X-Goog-"} {
		signed, err := time.Parse("20060102T150405Z", query.Get(vendor+"Date"))
		seconds, secondsErr := strconv.ParseInt(query.Get(vendor+"Expires"), 10, 32)
		if err == nil && secondsErr == nil {
			return signed.Add(time.Duration(seconds) * time.Second), true
		}
	}
	if seconds, err := strconv.ParseInt(query.Get("Expires"), 10, 64); err == nil {
		return time.Unix(seconds, 0), true // signature version 2
	}
	return time.Time{}, false
}

// isGood reports whether there is a link that does not expire soon, as far as the link shows.
func isGood(link string, now time.Time) bool {
	at, known := expiry(link)
	return link != "" && (!known || at.After(now.Add(margin)))
}

// renew asks the operator for fresh links and waits for them. It returns the Scan with them.
func (r *Reader) renew(ctx context.Context, scan *executionv1.Scan, kind Kind) (*executionv1.Scan, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.options.LinksTimeout, errNoLinks)
	defer cancel()
	scan, err := r.awaitRerun(ctx, scan)
	if err != nil {
		return nil, r.renewError(ctx, scan, kind, err)
	}
	before := kind.link(scan)
	value := "links@" + r.session.Now().UTC().Format(time.RFC3339Nano)
	if err := r.ask(ctx, scan, value); err != nil {
		return nil, r.renewError(ctx, scan, kind, err)
	}
	var fresh *executionv1.Scan
	err = r.watch(ctx, scan, func(s *executionv1.Scan) (bool, error) {
		fresh = s
		if link := kind.link(s); link != before && isGood(link, r.session.Now()) {
			return true, nil // another client may have asked at the same time
		}
		answer := meta.FindStatusCondition(s.Status.Conditions, executionv1.ConditionRerun)
		if s.Status.LastRerun != value || answer == nil {
			return false, nil
		}
		if answer.Status == metav1.ConditionFalse {
			return false, &refusedError{answer.Message}
		}
		// Fresh, whatever the clock here says. A log that is not stored gets no link.
		return kind.link(s) != "" || kind == Log, nil
	})
	if err != nil {
		return nil, r.renewError(ctx, scan, kind, err)
	}
	return fresh, nil
}

// awaitRerun waits until an earlier request is answered: the annotation holds one request only.
func (r *Reader) awaitRerun(ctx context.Context, scan *executionv1.Scan) (*executionv1.Scan, error) {
	last := scan
	err := r.watch(ctx, scan, func(s *executionv1.Scan) (bool, error) {
		last = s
		wish := s.Annotations[executionv1.AnnotationRerun]
		return wish == "" || wish == s.Status.LastRerun, nil
	})
	return last, err
}

// ask writes the request, unless another client has written one since.
func (r *Reader) ask(ctx context.Context, scan *executionv1.Scan, value string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": scan.UID, "resourceVersion": scan.ResourceVersion,
		"annotations": map[string]string{executionv1.AnnotationRerun: value},
	}})
	if err != nil {
		return fmt.Errorf("ask for fresh links: %w", err)
	}
	target := &executionv1.Scan{ObjectMeta: metav1.ObjectMeta{Namespace: scan.Namespace, Name: scan.Name}}
	err = r.client.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch))
	if apierrors.IsConflict(err) {
		// Another field of the Scan has changed: check again whether there is another request.
		if scan, err = r.awaitRerun(ctx, scan); err != nil {
			return err
		}
		return r.ask(ctx, scan, value)
	}
	return err
}

func (r *Reader) watch(ctx context.Context, scan *executionv1.Scan, see func(*executionv1.Scan) (bool, error)) error {
	feed := follow.Of[*executionv1.Scan](r.client, &executionv1.ScanList{},
		client.InNamespace(scan.Namespace), client.MatchingFields{"metadata.name": scan.Name})
	return feed.Run(ctx, func(s *executionv1.Scan, there bool) (bool, error) {
		if s.UID != scan.UID {
			return false, nil
		}
		if !there {
			return false, errors.New("it was deleted meanwhile")
		}
		return see(s)
	}, func(all []*executionv1.Scan) (bool, error) {
		for _, s := range all {
			if s.UID == scan.UID {
				return false, nil
			}
		}
		return false, errors.New("it was deleted meanwhile")
	})
}

// errNoLinks ends waiting for the operator.
var errNoLinks = errors.New("the operator did not write fresh links in time")

// refusedError is the operator's refusal.
type refusedError struct{ message string }

func (e *refusedError) Error() string { return e.message }

// renewError says why there are no fresh links, and what the user can do.
func (r *Reader) renewError(ctx context.Context, scan *executionv1.Scan, kind Kind, err error) error {
	state := "has run out"
	if kind.link(scan) == "" {
		state = "is missing"
	}
	what := fmt.Sprintf("the link to the %s of Scan %s %s", kind, scan.Name, state)
	if refused, ok := errors.AsType[*refusedError](err); ok {
		return fmt.Errorf("%s, and the operator writes no other: %s", what, refused.message)
	}
	if errors.Is(context.Cause(ctx), errNoLinks) {
		return fmt.Errorf(
			"%s, and the operator did not write another within %s: \"%s doctor\" shows whether it runs; an operator of an older version cannot do it",
			what, r.options.LinksTimeout, r.session.Program,
		)
	}
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%s, and asking for another needs to change the Scan: %w", what, r.session.Explain(err))
	}
	return fmt.Errorf("%s; ask for another: %w", what, r.session.Explain(err))
}
