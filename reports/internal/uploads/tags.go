// SPDX-License-Identifier: Apache-2.0

package uploads

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/storage"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/reports/internal/contents"
	"github.com/scanyard/scanyard/reports/internal/images"
	"github.com/scanyard/scanyard/reports/internal/kinds"
	"github.com/scanyard/scanyard/reports/internal/mvcc"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// leaseTime is how long a claim is good without being renewed.
const leaseTime = 3 * time.Minute

// eachTag reads a document of tags, one at a time.
func eachTag(from io.Reader, visit func(tag *reportsv1.Tag, raw []byte) error) error {
	decoder := json.NewDecoder(bufio.NewReader(from))
	for _, want := range []json.Token{json.Delim('{'), "tags", json.Delim('[')} {
		if token, err := decoder.Token(); err != nil || token != want {
			return errors.Join(errNotTags, err)
		}
	}
	for decoder.More() {
		var raw json.RawMessage
		var tag reportsv1.Tag
		err := decoder.Decode(&raw)
		if err == nil {
			err = json.Unmarshal(raw, &tag)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", errNotTags, err)
		}
		if err := visit(&tag, raw); err != nil {
			return err
		}
	}
	return nil
}

var errNotTags = errors.New(`must be {"tags": […]}`)

// putTags takes in the tags of a repository, whole or as far as they are known.
func (s *Service) putTags(w http.ResponseWriter, req *http.Request, at target) error {
	var about reportsv1.TagsUpload
	if err := readSpec(req, &about); err != nil {
		return err
	}
	ctx, claim := req.Context(), req.Header.Get(reportsv1.HeaderClaim)
	if _, err := s.repository(ctx, at, claim); err != nil {
		return err
	}
	staged, err := s.stage(req, func(from io.Reader, _ *contents.Upload) error {
		err := eachTag(from, func(*reportsv1.Tag, []byte) error { return nil })
		if errors.Is(err, errNotTags) {
			return apierrors.NewBadRequest(err.Error())
		}
		return err
	})
	if err != nil {
		return err
	}
	answered := &reportsv1.UploadAnswer{SHA256: staged.Sum()}
	err = s.together(ctx, func() ([]mvcc.Change, error) { return s.changeTags(ctx, at, claim, &about, staged, answered) })
	if err != nil {
		return errors.Join(err, staged.Discard(context.WithoutCancel(ctx)))
	}
	return answer(w, http.StatusOK, answered)
}

// repository reads a repository that a worker has claimed.
func (s *Service) repository(ctx context.Context, at target, claim string) (*reportsv1.Repository, error) {
	repository := &reportsv1.Repository{}
	if err := s.repositories.Get(ctx, s.repositories.Key(at.namespace, at.name), storage.GetOptions{}, repository); err != nil {
		return nil, notThere(err, kinds.Repositories.Resource, at.name)
	}
	return repository, mustHold(repository.Status.Work, claim)
}

func (s *Service) changeTags(ctx context.Context, at target, claim string, about *reportsv1.TagsUpload, staged *contents.Upload,
	answered *reportsv1.UploadAnswer,
) ([]mvcc.Change, error) {
	repository, err := s.repository(ctx, at, claim)
	if err != nil {
		return nil, err
	}
	stored, err := contents.Of(ctx, s.store, s.repositories.Key(at.namespace, at.name), kinds.FormatTags)
	if err != nil {
		return nil, err
	}
	answered.Changed = stored == nil || stored.Sum != staged.Sum()
	work := repository.Status.Work
	repository.Status = *about.Status.DeepCopy()
	if state := repository.Status.State; state == reportsv1.RepositoryDone || state == reportsv1.RepositoryFailed {
		work = &reportsv1.Work{Job: work.Job}
	} else {
		ends := metav1.NewTime(s.clock.Now().Add(leaseTime))
		work.LeaseExpiresAt = &ends
	}
	repository.Status.Work = work
	change, err := s.repositories.ChangeTo(repository, func(ctx context.Context, tx *sqldb.Tx, object int64, now time.Time) error {
		_, err := contents.Attach(ctx, tx, object, kinds.FormatTags, staged, now)
		return err
	})
	return []mvcc.Change{change}, err
}

// Bounds of the changes of data.
const (
	maxHashes = 2_000_000
	hashBytes = 8
	// worthwhile is which part of all keys may have changed: where more have, looking at each report is cheaper.
	worthwhile = 0.3
)

// putChanges takes in which keys differ between two versions of an adapter's data.
func (s *Service) putChanges(w http.ResponseWriter, req *http.Request, at target) error {
	ctx, query := req.Context(), req.URL.Query()
	from, to := query.Get("from"), query.Get("to")
	if from == "" || to == "" || from == to {
		return apierrors.NewBadRequest("from and to must be two versions")
	}
	database := &reportsv1.VulnerabilityDatabase{}
	if err := s.databases.Get(ctx, s.databases.Key("", at.name), storage.GetOptions{}, database); err != nil {
		return notThere(err, kinds.Databases.Resource, at.name)
	}
	hashes, err := readHashes(ctx, req)
	if err != nil {
		return err
	}
	if total, err := strconv.ParseFloat(query.Get("total"), 64); query.Get("total") != "" && (err != nil || total < 0) {
		return apierrors.NewBadRequest("total must be a number")
	} else if err == nil && float64(len(hashes)) > worthwhile*total {
		return answer(w, http.StatusOK, &reportsv1.UploadAnswer{})
	}
	var other string
	err = s.store.Maintain(ctx, "note what has changed", func(tx *sqldb.Tx) error {
		other, err = images.Link(ctx, tx, at.name, from, to, s.clock.Now().UnixMilli(), hashes)
		return err
	})
	if err != nil {
		return err
	}
	if other != "" {
		return conflict("NotNewest", "the newest version is %s, not %s", other, from)
	}
	return answer(w, http.StatusOK, &reportsv1.UploadAnswer{Changed: true})
}

func readHashes(ctx context.Context, req *http.Request) ([]int64, error) {
	b, err := open(ctx, req, nil)
	if err != nil {
		return nil, err
	}
	defer b.close()
	var hashes []int64
	buffered := bufio.NewReader(b)
	var hash [hashBytes]byte
	for {
		_, err := io.ReadFull(buffered, hash[:])
		if errors.Is(err, io.EOF) {
			return hashes, nil
		}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, apierrors.NewBadRequest("the body must be numbers of 8 bytes")
		}
		if err != nil {
			return nil, err
		}
		if len(hashes) == maxHashes {
			return nil, bad(reportsv1.ReasonTooLarge, "there are more than %d keys", maxHashes)
		}
		hashes = append(hashes, int64(binary.LittleEndian.Uint64(hash[:])))
	}
}
