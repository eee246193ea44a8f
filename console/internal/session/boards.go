// SPDX-License-Identifier: Apache-2.0

package session

import (
	"encoding/base64"
	"encoding/json"
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
	plain, err := json.Marshal(kept{s.User, boards})
	if err != nil {
		return fmt.Errorf("write boards: %w", err)
	}
	name := k.boardsName()
	sealed := base64.RawURLEncoding.EncodeToString(k.seals[0].Seal(nil, nil, plain, []byte(name))) //nolint:gosec // the AEAD makes the nonce, and wants none
	if len(sealed) > partSize {
		return ErrTooLarge
	}
	http.SetCookie(w, k.cookie(name, sealed, int(boardsLifetime/time.Second)))
	return nil
}

// Boards are somebody's own boards. There are none where the cookie is somebody else's, or not ours.
func (k *Keeper) Boards(r *http.Request, s *Session) []Board {
	cookie, err := r.Cookie(k.boardsName())
	if err != nil {
		return nil
	}
	sealed, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err != nil {
		return nil
	}
	for _, seal := range k.seals {
		plain, err := seal.Open(nil, nil, sealed, []byte(k.boardsName()))
		if err != nil {
			continue // sealed with another key
		}
		stored := kept{}
		if json.Unmarshal(plain, &stored) != nil || stored.User != s.User {
			return nil
		}
		return stored.Boards
	}
	return nil
}
