package scripts

import "testing"

// A writer with WritersFirst has a place in front of all but others like it. Readers that could join others make way for it and for no other
// waiter, and come in when it leaves.
func TestPlaceInFront(t *testing.T) {
	everywhere(t, "rw", 0, func(s *stage) {
		s.play(`
			others listen
			no turn
			aW tries          | done      | aW 30s     | -                  |
			b asks b          | refused 0 | aW 30s     | b                  |
			cW asks c         | refused 1 | aW 30s     | b cW               |
			frontW asks f     | refused 0 | aW 30s     | frontW b cW        |
			front2W asks g    | refused 1 | aW 30s     | frontW front2W b cW |
			aW releases       | done      | frontW 3s  | front2W b cW       | front:f
			frontW releases   | done      | front2W 3s | b cW               | front2:g
			front2W releases  | done      | b 3s       | cW                 | b:b others:1,0
			d tries           | done      | b 3s d 30s | cW                 |
			d releases        | done      | b 3s       | cW                 | others:0
			cW leaves         | done      | b 3s       | -                  | others:1,0
			a tries           | done      | a 30s b 3s | -                  |
			frontW asks h     | refused 0 |            | frontW             |
			e asks e          | refused 1 |            | frontW e           |
			d tries           | refused   | a 30s b 3s | frontW e           |
			a nests           | done      | a*2 30s b 3s | frontW e         |
			frontW leaves     | done      | a*2 30s b 3s e 3s | -           | e:e others:1,0
			d tries           | done
		`)
	})
}

// When a writer goes on as a reader the lock is not left to Redisson's waiters: they can read beside it. Nor does MinHold keep it.
func TestDowngradeIsNotLeftToOthers(t *testing.T) {
	everywhere(t, "rw", 0, func(s *stage) {
		s.step("others listen")
		for _, step := range []string{"aW releases", "aW retains 5s"} {
			s.play(`
				redis DEL TURN
				aW tries          | done      | aW 30s       | -    |
				a tries           | done      | aW 30s a 30s | -    |
				b asks b          | refused 0 |              | b    |
				cW asks c         | refused 1 |              | b cW |
			`)
			s.step(step, "done", "a 30s b 3s", "cW", "b:b others:1,0")
			s.wrong(step, "turn", s.do("EXISTS", s.keys["TURN"]), "0")
			s.step("redis DEL LOCK LINE ASKS")
		}
	})
}
