// SPDX-License-Identifier: Apache-2.0

package session

import (
	"fmt"
	"net/http"
	"time"
)

// Filter is a page with its filter, under a name.
type Filter struct {
	Title string `json:"t"`
	// Address is the path of a page of the console, with its parameters.
	Address string `json:"a"`
}

// Board is a named page of filters.
type Board struct {
	Name    string   `json:"n"`
	Filters []Filter `json:"f"`
}

// boardsLifetime is how long a browser keeps somebody's own boards.
const boardsLifetime = 365 * 24 * time.Hour

// kept are the boards as the cookie has them, and whose they are.
type kept struct {
	User   string  `json:"u,omitempty"`
	Boards []Board `json:"b"`
}

func (k *Keeper) boardsName() string { return k.name + "-boards" }

// WriteBoards gives somebody's own boards to the browser, beside the session: they outlast it.
func (k *Keeper) WriteBoards(w http.ResponseWriter, s *Session, boards []Board) error {
	sealed, err := k.seal(k.boardsName(), kept{s.User, boards})
	if err != nil {
		return fmt.Errorf("write boards: %w", err)
	}
	if len(sealed) > maxBoards {
		return ErrTooLarge
	}
	http.SetCookie(w, k.cookie(k.boardsName(), sealed, int(boardsLifetime/time.Second)))
	return nil
}

// Boards are somebody's own boards. There are none where the cookie is somebody else's, or not ours.
func (k *Keeper) Boards(r *http.Request, s *Session) []Board {
	cookie, err := r.Cookie(k.boardsName())
	if err != nil {
		return nil
	}
	stored := kept{}
	if !k.open(k.boardsName(), cookie.Value, &stored) || stored.User != s.User {
		return nil
	}
	return stored.Boards
}
