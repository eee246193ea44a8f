// SPDX-License-Identifier: Apache-2.0

package session

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
)

func TestBoardsAreOfTheirUser(t *testing.T) {
	now := noon
	k := newKeeper(t, &now, key(1))
	kim, lee := New("kim", "", now), New("lee", "", now)
	boards := []Board{{"Monday", []Filter{{"High", "/findings?severity=high"}}}}
	w := httptest.NewRecorder()
	if err := k.WriteBoards(w, kim, boards); err != nil {
		t.Fatal(err)
	}
	r := carried(w)
	now = noon.Add(2 * Lifetime) // they outlast the session
	if got := newKeeper(t, &now, key(2), key(1)).Boards(r, kim); !reflect.DeepEqual(got, boards) {
		t.Errorf("got %+v", got)
	}
	if got := k.Boards(r, lee); got != nil {
		t.Errorf("lee sees boards of kim: %+v", got)
	}
	if got := newKeeper(t, &now, key(2)).Boards(r, kim); got != nil {
		t.Errorf("boards of a key that is gone open: %+v", got)
	}
	if _, ok := k.Read(r); ok {
		t.Error("boards are taken for a session")
	}
	forged := httptest.NewRequest(http.MethodGet, "/", nil)
	forged.AddCookie(&http.Cookie{Name: k.boardsName(), Value: "AAAA"})
	if got := k.Boards(forged, kim); got != nil {
		t.Errorf("forged boards open: %+v", got)
	}
	boards[0].Filters[0].Title = noise(maxBoards)
	if err := k.WriteBoards(httptest.NewRecorder(), kim, boards); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v", err)
	}
}
