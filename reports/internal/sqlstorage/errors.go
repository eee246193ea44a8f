// SPDX-License-Identifier: Apache-2.0

package sqlstorage

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/storage"

	"github.com/scanyard/scanyard/reports/internal/mvcc"
)

// Texts of etcd's storage, which clients and tests know.
const (
	watchTooOld    = "The resourceVersion for the provided watch is too old."
	listTooOld     = "The resourceVersion for the provided list is too old."
	continueTooOld = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the " +
		"continue parameter."
	continueMayGoOn = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the " +
		"continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token " +
		"results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may " +
		"show up in the list."
	retryUnavailable    = 5
	retryBusy           = 1
	retryNoSpace        = 30
	retryTooLarge       = 1
	inconsistentVersion = -1 // in a continue token: go on at the newest state
)

// StatusOf turns an error of the database into what a client is told. What the database said stays with the server.
func StatusOf(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return apierrors.NewTimeoutError("the request did not complete in time", retryBusy)
	case errors.Is(err, mvcc.ErrQueueFull):
		return apierrors.NewTooManyRequests("too many writes are waiting for the database", retryBusy)
	case errors.Is(err, mvcc.ErrFrozen):
		return unavailable(mvcc.ErrFrozen.Error(), retryBusy)
	case errors.Is(err, mvcc.ErrNotWritten):
		return unavailable(mvcc.ErrNotWritten.Error(), retryUnavailable)
	case errors.Is(err, mvcc.ErrUnavailable), errors.Is(err, mvcc.ErrClosed):
		return unavailable(mvcc.ErrUnavailable.Error(), retryUnavailable)
	case errors.Is(err, mvcc.ErrBusy):
		return unavailable(mvcc.ErrBusy.Error(), retryBusy)
	case errors.Is(err, mvcc.ErrNoSpace):
		return unavailable(mvcc.ErrNoSpace.Error(), retryNoSpace)
	case errors.Is(err, mvcc.ErrCompacted):
		return apierrors.NewResourceExpired(listTooOld)
	}
	return storage.NewInternalError(err)
}

func unavailable(message string, retryAfter int32) error {
	status := apierrors.NewServiceUnavailable(message)
	status.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: retryAfter}
	return status
}

// expiredContinue is the answer to a continue token whose revision has been compacted. It carries a token that goes on
// behind the same key at the newest state.
func expiredContinue(key, prefix string) error {
	token, err := storage.EncodeContinue(key, prefix, inconsistentVersion)
	if err != nil {
		return apierrors.NewResourceExpired(continueTooOld)
	}
	status := apierrors.NewResourceExpired(continueMayGoOn)
	status.ErrStatus.Continue = token
	return status
}

// exceeded is the answer to a write that needs more than its namespace may have.
func (s *Storage) exceeded(to *mvcc.State, of *mvcc.Exceeded) error {
	return apierrors.NewForbidden(s.resource, to.Name, fmt.Errorf("exceeded storage of namespace %s: used %d, limit %d", to.Namespace, of.Used, of.Limit))
}

func damaged(key string) error {
	return apierrors.NewInternalError(fmt.Errorf("stored payload of %s is damaged", nameOf(key)))
}
