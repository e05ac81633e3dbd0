-- SPDX-License-Identifier: MIT
-- What the keepers share in PostgreSQL. Sent whole at every connection, as one transaction; what
-- is there already is left alone. Names in it are those of store/store.h.
--
-- Every decision is made here, in one transaction, under locks on the meters that it is about:
-- they are taken in the order of their names by everybody, so nobody waits in a circle. A hold's
-- row is the one truth about it: who deletes it, or marks it as kept, is who settles it.
--
-- Names and ids are ASCII (store/pgtext.h), and compare as bytes.

SET client_min_messages = warning;
SET search_path = pg_catalog, pg_temp;
SET default_transaction_isolation = 'read committed';
-- Everything is looked up by key. A plan made while the tables were empty must not be kept.
SET enable_seqscan = off;
SET plan_cache_mode = force_generic_plan;
SET jit = off;
-- A hold must be on disk before its request goes out; whoever asks for more than that gets it.
SELECT set_config('synchronous_commit', 'on', false)
	WHERE current_setting('synchronous_commit') = 'off';

DO $schema$
DECLARE
	there int;
BEGIN
	PERFORM pg_advisory_xact_lock(6278391456871201890);
	IF to_regclass('warder.version') IS NOT NULL THEN
		SELECT version INTO there FROM warder.version;
		IF there IS DISTINCT FROM 1 THEN
			RAISE EXCEPTION 'the schema "warder" is of version %, this program knows version 1: '
				'use the program that made it, or another database', there
				USING ERRCODE = 'WD001';
		END IF;
		RETURN;
	END IF;

	CREATE SCHEMA IF NOT EXISTS warder;
	CREATE TABLE warder.version (version int NOT NULL);
	INSERT INTO warder.version VALUES (1);

	-- Who has been seen when. A connection is known by its epoch: none before it can change
	-- anything once there is a new one.
	CREATE SEQUENCE warder.epochs;
	CREATE TABLE warder.keepers (
		id text COLLATE "C" PRIMARY KEY,
		epoch bigint NOT NULL,
		seen_at timestamptz NOT NULL
	) WITH (fillfactor = 50);

	CREATE TABLE warder.meters (
		name text COLLATE "C" PRIMARY KEY,
		bytes bigint NOT NULL DEFAULT 0,       -- used
		held_bytes bigint NOT NULL DEFAULT 0,  -- in holds
		spent bigint NOT NULL DEFAULT 0,
		reserved bigint NOT NULL DEFAULT 0,    -- in holds, the kept ones, too
		level bigint NOT NULL DEFAULT 0,       -- of the bucket; a request is 3600000000
		level_at bigint NOT NULL DEFAULT 0,    -- in milliseconds since 1970
		used_day date NOT NULL DEFAULT CURRENT_DATE -- the last; a day, since its index then rarely changes
	) WITH (fillfactor = 50);
	CREATE INDEX meters_of_runs ON warder.meters (used_day) WHERE name LIKE 'run:%';

	-- How many holds of a keeper are under way. Guarded by the meter's lock.
	CREATE TABLE warder.places (
		meter text COLLATE "C",
		keeper text COLLATE "C",
		taken bigint NOT NULL,
		PRIMARY KEY (meter, keeper)
	) WITH (fillfactor = 50);
	CREATE INDEX places_keeper ON warder.places (keeper);

	CREATE TABLE warder.holds (
		id text COLLATE "C" PRIMARY KEY,
		keeper text COLLATE "C" NOT NULL,
		run_id text COLLATE "C" NOT NULL,
		account text COLLATE "C" NOT NULL,
		attempt bigint NOT NULL,
		meters text[] NOT NULL,
		bytes bigint NOT NULL,
		spend bigint NOT NULL,
		made_at timestamptz NOT NULL,
		is_kept boolean NOT NULL DEFAULT false, -- only its money is left
		kept_at timestamptz,
		call_id text COLLATE "C" NOT NULL DEFAULT ''
	);
	CREATE INDEX holds_made_at ON warder.holds (made_at);
	CREATE INDEX holds_call_id ON warder.holds (call_id) WHERE is_kept AND call_id <> '';

	CREATE TABLE warder.runs (
		id text COLLATE "C" PRIMARY KEY,
		account text COLLATE "C" NOT NULL,
		attempt bigint NOT NULL,
		begun_at timestamptz NOT NULL,
		keeper text COLLATE "C", -- that has its link
		used_day date NOT NULL DEFAULT CURRENT_DATE -- when it last had one, or was asked for
	) WITH (fillfactor = 50);
	CREATE INDEX runs_over ON warder.runs (used_day) WHERE keeper IS NULL;
	CREATE INDEX runs_keeper ON warder.runs (keeper) WHERE keeper IS NOT NULL;

	CREATE TABLE warder.revocations (
		run_id text COLLATE "C" PRIMARY KEY,
		revoked_at timestamptz NOT NULL
	);

	CREATE TABLE warder.calls (
		id text COLLATE "C" PRIMARY KEY,
		run_id text COLLATE "C" NOT NULL,
		account text COLLATE "C" NOT NULL,
		attempt bigint NOT NULL,
		counted bigint NOT NULL,
		is_reconciled boolean NOT NULL,
		counted_day date NOT NULL DEFAULT CURRENT_DATE
	);
	CREATE INDEX calls_counted_day ON warder.calls (counted_day);

	-- A sum stays where adding one more amount to it, or two of them, still fits.
	CREATE FUNCTION warder.capped(sum numeric) RETURNS bigint LANGUAGE sql IMMUTABLE AS
	'SELECT greatest(least(sum, 4000000000000000000), 0)::bigint';

	-- Budgets are of runs and accounts.
	CREATE FUNCTION warder.has_money(name text) RETURNS boolean LANGUAGE sql IMMUTABLE AS
	$f$SELECT left(name, 5) <> 'host:'$f$;

	CREATE FUNCTION warder.is_alive(keeper text, alive_ms bigint) RETURNS boolean
	LANGUAGE plpgsql AS $f$
	BEGIN
		RETURN EXISTS (SELECT FROM warder.keepers k WHERE k.id = keeper
			AND k.seen_at > clock_timestamp() - alive_ms * interval '1 millisecond');
	END $f$;

	-- A keeper has connected. Waits for the end of whatever an earlier connection of its has
	-- under way, and lets nothing of that begin; so what is undone now stays undone.
	CREATE FUNCTION warder.hello(me text, answer_ms bigint, alive_ms bigint) RETURNS bigint
	LANGUAGE plpgsql AS $f$
	DECLARE
		mine bigint := nextval('warder.epochs');
		alive interval := alive_ms * interval '1 millisecond';
		latest timestamptz;
	BEGIN
		PERFORM set_config('statement_timeout', answer_ms::text, false);
		-- When nobody was seen for a while it was the database that was away. Those who lived
		-- then get time to come back, or they would lose places and links to the quickest.
		SELECT max(seen_at) INTO latest FROM warder.keepers;
		IF latest < clock_timestamp() - alive / 2 THEN
			PERFORM FROM (SELECT FROM warder.keepers WHERE seen_at > latest - alive
				ORDER BY id FOR UPDATE) k;
			UPDATE warder.keepers SET seen_at = clock_timestamp() - alive / 2
				WHERE seen_at > latest - alive AND seen_at < clock_timestamp() - alive / 2;
		END IF;
		INSERT INTO warder.keepers VALUES (me, mine, clock_timestamp())
			ON CONFLICT (id) DO UPDATE SET epoch = mine, seen_at = clock_timestamp();
		RETURN mine;
	END $f$;

	-- A keeper ends in order: nobody needs to wait until it counts as gone.
	CREATE FUNCTION warder.leave(me text, mine bigint, alive_ms bigint) RETURNS void
	LANGUAGE plpgsql AS $f$
	BEGIN
		DELETE FROM warder.keepers WHERE id = me AND epoch = mine;
		IF FOUND THEN
			UPDATE warder.runs SET keeper = NULL, used_day = CURRENT_DATE WHERE keeper = me;
			DELETE FROM warder.places WHERE keeper = me;
		END IF;
	END $f$;

	CREATE FUNCTION warder.fence(me text, mine bigint) RETURNS void LANGUAGE plpgsql AS $f$
	BEGIN
		PERFORM FROM warder.keepers WHERE id = me AND epoch = mine FOR SHARE;
		IF NOT FOUND THEN
			RAISE EXCEPTION 'this keeper has connected anew' USING ERRCODE = 'WD002';
		END IF;
	END $f$;

	CREATE FUNCTION warder.lock_meters(names text[]) RETURNS void LANGUAGE plpgsql AS $f$
	BEGIN
		PERFORM FROM (SELECT FROM warder.meters WHERE name = ANY (names) ORDER BY name FOR UPDATE) m;
	END $f$;

	-- Those that are missing are made before any is locked; in the same order. One that is found
	-- here may be pruned before it is locked: then all of it is done again.
	CREATE FUNCTION warder.begin_again(what text) RETURNS void LANGUAGE plpgsql AS $f$
	BEGIN
		RAISE EXCEPTION '% has disappeared', what USING ERRCODE = 'serialization_failure';
	END $f$;

	CREATE FUNCTION warder.make_meters(names text[]) RETURNS void LANGUAGE plpgsql AS $f$
	BEGIN
		IF (SELECT count(*) FROM warder.meters WHERE name = ANY (names)) < cardinality(names) THEN
			INSERT INTO warder.meters (name) SELECT n FROM unnest(names) n ORDER BY n COLLATE "C"
				ON CONFLICT DO NOTHING;
		END IF;
	END $f$;

	-- A turn's reservations. `names` are the meters, each once, in the order of strcmp; a
	-- reservation has three claims, which say where in `names` theirs is (0: no more).
	-- A request is so much of a bucket's level that a rate in thousandths per hour is what runs out
	-- of it in a millisecond; capacities likewise. What is read is decided on in memory, and
	-- written once for all.
	CREATE FUNCTION warder.reserve(me text, mine bigint, alive_ms bigint, names text[],
		ids text[], runs text[], accounts text[], attempts bigint[], sizes bigint[], spends bigint[],
		claims int[], rates bigint[], capacities bigint[], place_limits bigint[], byte_limits bigint[],
		spend_limits bigint[], mores bigint[], are_more boolean[],
		OUT verdicts int[], OUT refused int[], OUT waits bigint[], OUT grants bigint[])
	LANGUAGE plpgsql AS $f$
	DECLARE
		one CONSTANT bigint := 3600000000;
		most CONSTANT bigint := 4000000000000000000;
		revoked text[]; there text[];
		used bigint[]; held bigint[]; spent bigint[]; owed bigint[];
		levels bigint[]; levels_at bigint[]; taken bigint[]; added bigint[];
		now_ms bigint; verdict int; claim int; wait bigint; m int; c int; rate bigint; passed bigint;
		more bigint; room bigint;
	BEGIN
		PERFORM warder.fence(me, mine);
		PERFORM warder.make_meters(names);
		SELECT array_agg(t.bytes), array_agg(t.held_bytes), array_agg(t.spent),
			array_agg(t.reserved), array_agg(t.level), array_agg(t.level_at), array_agg(0::bigint)
			INTO used, held, spent, owed, levels, levels_at, added
			FROM (SELECT * FROM warder.meters WHERE name = ANY (names) ORDER BY name FOR UPDATE) t;
		-- What was read is not in the places of `names`.
		IF coalesce(cardinality(used), 0) <> cardinality(names) THEN
			PERFORM warder.begin_again('a meter');
		END IF;
		SELECT array_agg(coalesce(p.taken, 0) ORDER BY n.place) INTO taken
			FROM unnest(names) WITH ORDINALITY n (name, place) LEFT JOIN (
				SELECT q.meter, sum(q.taken)::bigint AS taken FROM warder.places q
				JOIN warder.keepers k ON k.id = q.keeper
				WHERE q.meter = ANY (names) AND (k.id = me OR
					k.seen_at > clock_timestamp() - alive_ms * interval '1 millisecond')
				GROUP BY q.meter) p ON p.meter = n.name;
		SELECT array_agg(v.run_id) INTO revoked FROM warder.revocations v WHERE v.run_id = ANY (runs);
		now_ms := floor(extract(epoch FROM clock_timestamp()) * 1000);
		verdicts := array_fill(0, ARRAY[cardinality(ids)]);
		refused := verdicts;
		waits := array_fill(0::bigint, ARRAY[cardinality(ids)]);
		grants := waits;
		IF true = ANY (are_more) THEN
			there := ARRAY(SELECT h.id FROM warder.holds h WHERE h.id = ANY (ids) AND NOT h.is_kept);
		END IF;

		FOR r IN 1 .. cardinality(ids) LOOP
			verdict := 0;
			wait := 0;
			claim := 0;
			IF revoked IS NOT NULL AND runs[r] = ANY (revoked) THEN
				verdicts[r] := 5;
				CONTINUE;
			END IF;
			-- What makes a hold larger needs it, and has no limits but those of bytes.
			IF are_more[r] AND NOT ids[r] = ANY (there) THEN
				verdicts[r] := 3;
				CONTINUE;
			END IF;
			more := mores[r];
			WHILE claim < 3 LOOP
				c := 3 * r - 2 + claim;
				m := claims[c];
				EXIT WHEN m = 0;
				rate := rates[c];
				IF rate > 0 THEN
					passed := greatest(now_ms - levels_at[m], 0);
					IF passed > levels[m] / rate THEN
						levels[m] := 0;
					ELSE
						levels[m] := levels[m] - passed * rate;
					END IF;
					levels_at[m] := now_ms;
					IF levels[m] + one > capacities[c] THEN
						verdict := 1;
						wait := (levels[m] + one - capacities[c] + rate - 1) / rate;
						EXIT;
					END IF;
				END IF;
				IF place_limits[c] > 0 AND taken[m] >= place_limits[c] THEN
					verdict := 2;
					wait := 1000;
					EXIT;
				END IF;
				IF byte_limits[c] > 0 THEN
					room := byte_limits[c] - used[m] - held[m] - sizes[r];
					IF room < 0 OR room = 0 AND more > 0 THEN
						verdict := 3;
						EXIT;
					END IF;
					more := least(more, room);
				END IF;
				IF spend_limits[c] > 0 AND spent[m] + owed[m] + spends[r] > spend_limits[c] THEN
					verdict := 4;
					EXIT;
				END IF;
				claim := claim + 1;
			END LOOP;
			IF verdict > 0 THEN
				verdicts[r] := verdict;
				refused[r] := claim;
				waits[r] := wait;
				CONTINUE;
			END IF;
			FOR c IN 3 * r - 2 .. 3 * r LOOP
				m := claims[c];
				EXIT WHEN m = 0;
				held[m] := least(held[m] + sizes[r] + more, most);
				CONTINUE WHEN are_more[r];
				added[m] := added[m] + 1;
				taken[m] := taken[m] + 1;
				IF warder.has_money(names[m]) THEN
					owed[m] := least(owed[m] + spends[r], most);
				END IF;
				IF rates[c] > 0 THEN
					levels[m] := levels[m] + one;
				END IF;
			END LOOP;
			grants[r] := sizes[r] + more;
		END LOOP;

		UPDATE warder.meters t SET held_bytes = u.held_bytes, reserved = u.reserved, level = u.level,
			level_at = u.level_at, used_day = CURRENT_DATE
			FROM unnest(names, held, owed, levels, levels_at, added)
				u (name, held_bytes, reserved, level, level_at, added)
			-- A clock that was put back counts from now on, or a bucket that is empty stays so.
			WHERE t.name = u.name
			AND (u.added > 0 OR u.held_bytes > t.held_bytes OR u.level_at < t.level_at);
		INSERT INTO warder.places SELECT u.name, me, u.added FROM unnest(names, added) u (name, added)
			WHERE u.added > 0
			ON CONFLICT (meter, keeper) DO UPDATE SET taken = places.taken + excluded.taken;
		INSERT INTO warder.holds (id, keeper, run_id, account, attempt, meters, bytes, spend, made_at)
			SELECT u.id, me, u.run, u.account, u.attempt, array_remove(ARRAY[
				names[claims[3 * u.place - 2]], names[claims[3 * u.place - 1]],
				names[claims[3 * u.place]]], NULL), u.size, u.spend, clock_timestamp()
			FROM unnest(ids, runs, accounts, attempts, grants, spends, verdicts, are_more)
				WITH ORDINALITY u (id, run, account, attempt, size, spend, verdict, is_more, place)
			WHERE u.verdict = 0 AND NOT u.is_more;
		UPDATE warder.holds h SET bytes = least(h.bytes + u.size, most)
			FROM unnest(ids, grants, verdicts, are_more) u (id, size, verdict, is_more)
			WHERE h.id = u.id AND u.verdict = 0 AND u.is_more;
	END $f$;

	-- Of two settlements of one hold the first counts. What a call has cost is not counted a
	-- second time when it was reconciled before its reply had ended.
	CREATE FUNCTION warder.settle(me text, mine bigint, alive_ms bigint, ids text[], sizes bigint[],
		are_known boolean[], costs bigint[], call_ids text[]) RETURNS void LANGUAGE plpgsql AS $f$
	BEGIN
		PERFORM warder.fence(me, mine);
		PERFORM warder.lock_meters(ARRAY(
			SELECT DISTINCT unnest(h.meters) FROM warder.holds h WHERE h.id = ANY (ids)));
		WITH settled AS (
			SELECT DISTINCT ON (s.id) s.*, coalesce(c.is_reconciled, false) AS is_done
			FROM unnest(ids, sizes, are_known, costs, call_ids) WITH ORDINALITY
				s (id, size, is_known, cost, call_id, place)
			LEFT JOIN warder.calls c ON c.id = s.call_id AND s.call_id <> ''
			ORDER BY s.id, s.place
		), gone AS (
			DELETE FROM warder.holds h USING settled s
			WHERE h.id = s.id AND NOT h.is_kept AND (s.is_known OR s.is_done OR h.spend = 0)
			RETURNING h.keeper, h.meters, h.bytes AS held, h.spend AS freed, s.size,
				CASE WHEN s.is_known AND NOT s.is_done THEN s.cost ELSE 0 END AS cost,
				s.call_id, h.run_id, h.account, h.attempt
		), kept AS (
			UPDATE warder.holds h SET is_kept = true, kept_at = clock_timestamp(),
				call_id = s.call_id FROM settled s
			WHERE h.id = s.id AND NOT h.is_kept AND NOT (s.is_known OR s.is_done OR h.spend = 0)
			RETURNING h.keeper, h.meters, h.bytes AS held, s.size
		), noted AS (
			INSERT INTO warder.calls
			SELECT call_id, min(run_id), min(account), max(attempt), warder.capped(sum(cost)), false
			FROM gone WHERE call_id <> '' GROUP BY call_id
			ON CONFLICT (id) DO UPDATE
				SET counted = warder.capped(calls.counted::numeric + excluded.counted),
					counted_day = CURRENT_DATE
				WHERE NOT calls.is_reconciled
		), change AS (
			SELECT m.name, d.keeper, sum(d.held) AS held, sum(d.freed) AS freed, sum(d.size) AS size,
				sum(d.cost) AS cost, count(*) AS taken
			FROM (SELECT keeper, meters, held, freed, size, cost FROM gone
				UNION ALL SELECT keeper, meters, held, 0, size, 0 FROM kept) d, unnest(d.meters) m (name)
			GROUP BY m.name, d.keeper
		), freed AS (
			UPDATE warder.places p SET taken = greatest(p.taken - c.taken, 0) FROM change c
			WHERE p.meter = c.name AND p.keeper = c.keeper
		)
		UPDATE warder.meters m SET
			bytes = warder.capped(m.bytes + c.size), held_bytes = warder.capped(m.held_bytes - c.held),
			spent = CASE WHEN warder.has_money(m.name) THEN warder.capped(m.spent + c.cost) ELSE 0 END,
			reserved = warder.capped(m.reserved - c.freed), used_day = CURRENT_DATE
		FROM (SELECT name, sum(held) AS held, sum(freed) AS freed, sum(size) AS size,
			sum(cost) AS cost FROM change GROUP BY name) c
		WHERE m.name = c.name;
	END $f$;

	CREATE FUNCTION warder.open_runs(me text, mine bigint, alive_ms bigint, ids text[], accounts text[],
		attempts bigint[], have_no_link boolean[], ages_ms bigint[])
	RETURNS TABLE (verdict int, begun_ms bigint) LANGUAGE plpgsql AS $f$
	DECLARE
		verdicts int[] := array_fill(0, ARRAY[cardinality(ids)]);
		begun timestamptz[] := array_fill(NULL::timestamptz, ARRAY[cardinality(ids)]);
		linked text;
		known_at timestamptz;
		i int;
	BEGIN
		PERFORM warder.fence(me, mine);
		-- One by one, in the order of their names: each is locked.
		FOR i IN SELECT u.place FROM unnest(ids) WITH ORDINALITY u (id, place)
			ORDER BY u.id COLLATE "C", u.place LOOP
			known_at := clock_timestamp() - ages_ms[i] * interval '1 millisecond';
			INSERT INTO warder.runs VALUES (ids[i], accounts[i], attempts[i], known_at, NULL)
				ON CONFLICT DO NOTHING;
			-- A clock that was put back makes no run older.
			SELECT r.keeper, CASE WHEN r.begun_at > clock_timestamp() THEN r.begun_at
				ELSE least(r.begun_at, known_at) END
				INTO linked, known_at FROM warder.runs r WHERE r.id = ids[i] FOR UPDATE;
			IF NOT FOUND THEN
				PERFORM warder.begin_again('a run');
			END IF;
			begun[i] := known_at;
			IF EXISTS (SELECT FROM warder.revocations v WHERE v.run_id = ids[i]) THEN
				verdicts[i] := 5;
			ELSIF have_no_link[i] THEN
				UPDATE warder.runs SET begun_at = begun[i], used_day = CURRENT_DATE
					WHERE id = ids[i] AND (begun_at > begun[i] OR used_day < CURRENT_DATE);
			ELSIF linked IS NOT NULL AND warder.is_alive(linked, alive_ms) THEN
				verdicts[i] := 6;
			ELSE
				UPDATE warder.runs SET keeper = me, account = accounts[i], attempt = attempts[i],
					begun_at = begun[i], used_day = CURRENT_DATE WHERE id = ids[i];
			END IF;
		END LOOP;
		RETURN QUERY SELECT u.verdict, floor(extract(epoch FROM u.begun) * 1000)::bigint
			FROM unnest(verdicts, begun) u (verdict, begun);
	END $f$;

	CREATE FUNCTION warder.close_runs(me text, mine bigint, alive_ms bigint, ids text[]) RETURNS void
	LANGUAGE plpgsql AS $f$
	BEGIN
		PERFORM warder.fence(me, mine);
		PERFORM FROM (SELECT FROM warder.runs WHERE id = ANY (ids) ORDER BY id FOR UPDATE) r;
		UPDATE warder.runs SET keeper = NULL, used_day = CURRENT_DATE
			WHERE id = ANY (ids) AND keeper = me;
		DELETE FROM warder.places USING unnest(ids) u (id)
			WHERE meter = 'run:' || u.id AND keeper = me AND taken = 0;
	END $f$;

	CREATE FUNCTION warder.revoke(me text, mine bigint, alive_ms bigint, ids text[]) RETURNS SETOF int
	LANGUAGE plpgsql AS $f$
	BEGIN
		PERFORM warder.fence(me, mine);
		INSERT INTO warder.revocations SELECT u.id COLLATE "C", clock_timestamp()
			FROM unnest(ids) u (id) ORDER BY 1 ON CONFLICT DO NOTHING;
		RETURN QUERY SELECT 0 FROM unnest(ids);
	END $f$;

	CREATE FUNCTION warder.read_meters(me text, mine bigint, alive_ms bigint, names text[])
	RETURNS TABLE (bytes bigint, spent bigint, reserved bigint, concurrent bigint)
	LANGUAGE plpgsql AS $f$
	BEGIN
		RETURN QUERY SELECT coalesce(m.bytes + m.held_bytes, 0), coalesce(m.spent, 0),
			coalesce(m.reserved, 0), (SELECT coalesce(sum(p.taken), 0)::bigint FROM warder.places p
				WHERE p.meter = u.name AND (p.keeper = me OR warder.is_alive(p.keeper, alive_ms)))
			FROM unnest(names) WITH ORDINALITY u (name, place)
			LEFT JOIN warder.meters m ON m.name = u.name ORDER BY u.place;
	END $f$;

	CREATE FUNCTION warder.reconcile(me text, mine bigint, alive_ms bigint, ids text[], runs text[],
		accounts text[], attempts bigint[], costs bigint[])
	RETURNS TABLE (was_known boolean, counted_before bigint) LANGUAGE plpgsql AS $f$
	DECLARE
		names text[];
		before bigint;
	BEGIN
		PERFORM warder.fence(me, mine);
		names := ARRAY(SELECT DISTINCT n FROM (
			SELECT 'run:' || r FROM unnest(runs) r
			UNION ALL SELECT 'account:' || a FROM unnest(accounts) a WHERE a <> '') x (n));
		PERFORM warder.make_meters(names);
		PERFORM warder.lock_meters(ARRAY(SELECT n FROM unnest(names) n
			UNION SELECT unnest(h.meters) FROM warder.holds h
				WHERE h.is_kept AND h.call_id <> '' AND h.call_id = ANY (ids)));
		IF (SELECT count(*) FROM warder.meters WHERE name = ANY (names)) < cardinality(names) THEN
			PERFORM warder.begin_again('a meter');
		END IF;
		FOR i IN 1 .. cardinality(ids) LOOP
			SELECT c.counted INTO before FROM warder.calls c WHERE c.id = ids[i] FOR UPDATE;
			was_known := FOUND;
			counted_before := coalesce(before, 0);
			WITH gone AS (
				DELETE FROM warder.holds h WHERE h.is_kept AND h.call_id <> '' AND h.call_id = ids[i]
				RETURNING h.meters, h.spend
			)
			UPDATE warder.meters m SET reserved = warder.capped(m.reserved - g.spend),
				spent = CASE WHEN warder.has_money(m.name)
					THEN warder.capped(m.spent::numeric + costs[i] - counted_before) ELSE 0 END
				FROM (SELECT n.name, sum(gone.spend) AS spend FROM gone, unnest(gone.meters) n (name)
					GROUP BY n.name) g
				WHERE m.name = g.name;
			-- Whose call it is, the hold knows best; the log is believed where there is none.
			IF FOUND THEN
				was_known := true;
			ELSE
				UPDATE warder.meters m SET
					spent = warder.capped(m.spent::numeric + costs[i] - counted_before),
					used_day = CURRENT_DATE
					WHERE m.name = 'run:' || runs[i]
					OR accounts[i] <> '' AND m.name = 'account:' || accounts[i];
			END IF;
			INSERT INTO warder.calls VALUES (ids[i], runs[i], accounts[i], attempts[i], costs[i], true)
				ON CONFLICT (id) DO UPDATE SET counted = costs[i], is_reconciled = true,
					counted_day = CURRENT_DATE;
			RETURN NEXT;
		END LOOP;
	END $f$;

	-- Holds that are kept, or that a keeper left; the latter may have sent its bytes.
	CREATE FUNCTION warder.give_up(me text, alive_ms bigint, ids text[]) RETURNS void
	LANGUAGE plpgsql AS $f$
	BEGIN
		PERFORM warder.lock_meters(ARRAY(
			SELECT DISTINCT unnest(h.meters) FROM warder.holds h WHERE h.id = ANY (ids)));
		WITH gone AS (
			DELETE FROM warder.holds h WHERE h.id = ANY (ids)
				AND (h.is_kept OR h.keeper <> me AND NOT warder.is_alive(h.keeper, alive_ms))
			RETURNING h.keeper, h.meters, h.spend, CASE WHEN h.is_kept THEN 0 ELSE h.bytes END AS size,
				CASE WHEN h.is_kept THEN 0 ELSE 1 END AS place
		), change AS (
			SELECT m.name, g.keeper, sum(g.spend) AS spend, sum(g.size) AS size, sum(g.place) AS taken
			FROM gone g, unnest(g.meters) m (name) GROUP BY m.name, g.keeper
		), freed AS (
			UPDATE warder.places p SET taken = greatest(p.taken - c.taken, 0) FROM change c
			WHERE p.meter = c.name AND p.keeper = c.keeper
		)
		UPDATE warder.meters m SET reserved = warder.capped(m.reserved - c.spend),
			bytes = warder.capped(m.bytes + c.size), held_bytes = warder.capped(m.held_bytes - c.size)
		FROM (SELECT name, sum(spend) AS spend, sum(size) AS size FROM change GROUP BY name) c
		WHERE m.name = c.name;
	END $f$;

	-- Some of them at a time; how many that were. Where there is no money in it no log
	-- need have it.
	CREATE FUNCTION warder.release(me text, mine bigint, alive_ms bigint, logs text, since_s bigint,
		before_s bigint) RETURNS bigint LANGUAGE plpgsql AS $f$
	DECLARE
		ids text[];
	BEGIN
		PERFORM warder.fence(me, mine);
		ids := ARRAY(SELECT h.id FROM warder.holds h WHERE h.made_at < to_timestamp(before_s)
			AND (h.is_kept OR h.keeper <> me AND NOT warder.is_alive(h.keeper, alive_ms))
			AND (h.spend = 0 OR h.made_at >= to_timestamp(since_s) AND strpos(logs, right(h.id, 9)) > 0
				AND coalesce(h.kept_at, (SELECT k.seen_at FROM warder.keepers k WHERE k.id = h.keeper),
					h.made_at) < to_timestamp(before_s)) LIMIT 1000);
		PERFORM warder.give_up(me, alive_ms, ids);
		RETURN cardinality(ids);
	END $f$;

	-- What is left of keepers that ended long ago: of their holds only the money stays, which
	-- waits to be reconciled, and with it when its keeper was seen last. Nobody waits here for others, and nothing of a keeper that comes
	-- back meanwhile is taken away: its row is locked.
	CREATE FUNCTION warder.bury(me text, alive_ms bigint, most int) RETURNS void
	LANGUAGE plpgsql AS $f$
	DECLARE
		gone text[] := ARRAY(SELECT k.id FROM warder.keepers k
			WHERE k.seen_at < clock_timestamp() - interval '1 hour' AND k.id <> me
			ORDER BY k.id LIMIT most FOR UPDATE SKIP LOCKED);
		ids text[];
	BEGIN
		-- One that left in order may have had no time to settle.
		ids := ARRAY(SELECT h.id FROM warder.holds h WHERE h.spend = 0 AND NOT h.is_kept
			AND (h.keeper = ANY (gone) OR NOT EXISTS (
				SELECT FROM warder.keepers k WHERE k.id = h.keeper)) LIMIT most);
		PERFORM warder.give_up(me, alive_ms, ids);
		gone := ARRAY(SELECT g.id FROM unnest(gone) g (id)
			WHERE NOT EXISTS (SELECT FROM warder.holds h WHERE h.keeper = g.id));
		UPDATE warder.runs SET keeper = NULL, used_day = CURRENT_DATE WHERE keeper = ANY (gone);
		DELETE FROM warder.places WHERE keeper = ANY (gone);
		DELETE FROM warder.keepers WHERE id = ANY (gone);
	END $f$;

	-- Runs that are over, each with its meter (store/store.h), and meters of those that were never
	-- opened: by tokens, without a limit of time. What is held shows in the meter, or among its
	-- places; what somebody has locked is used.
	CREATE FUNCTION warder.prune_runs(before date, most int) RETURNS void LANGUAGE plpgsql AS $f$
	DECLARE
		ids text[] := ARRAY(SELECT r.id FROM warder.runs r
			WHERE r.keeper IS NULL AND r.used_day < before AND NOT EXISTS (
				SELECT FROM warder.meters m WHERE m.name = 'run:' || r.id AND m.used_day >= before)
			ORDER BY r.used_day LIMIT most FOR UPDATE SKIP LOCKED);
		names text[] := ARRAY(SELECT m.name FROM warder.meters m
			WHERE m.name LIKE 'run:%' AND m.used_day < before AND m.reserved = 0 AND m.held_bytes = 0
			AND NOT EXISTS (SELECT FROM warder.runs r
				WHERE r.id = substr(m.name, 5) AND r.id <> ALL (ids))
			AND NOT EXISTS (SELECT FROM warder.places p WHERE p.meter = m.name AND p.taken > 0)
			ORDER BY m.used_day LIMIT most FOR UPDATE SKIP LOCKED);
	BEGIN
		DELETE FROM warder.places WHERE meter = ANY (names);
		DELETE FROM warder.meters WHERE name = ANY (names);
		DELETE FROM warder.runs r WHERE r.id = ANY (ids)
			AND NOT EXISTS (SELECT FROM warder.meters m WHERE m.name = 'run:' || r.id);
	END $f$;

	-- Once in a while, by every keeper: what nobody needs any more goes, some of it at a time.
	CREATE FUNCTION warder.tidy(me text, mine bigint, alive_ms bigint) RETURNS void
	LANGUAGE plpgsql AS $f$
	DECLARE
		most CONSTANT int := 500;
	BEGIN
		PERFORM warder.fence(me, mine);
		PERFORM warder.bury(me, alive_ms, most);
		PERFORM warder.prune_runs(CURRENT_DATE - 366, most);
		DELETE FROM warder.calls WHERE id = ANY (ARRAY(SELECT c.id FROM warder.calls c
			WHERE c.counted_day < CURRENT_DATE - 30
			ORDER BY c.counted_day LIMIT most FOR UPDATE SKIP LOCKED));
	END $f$;

	CREATE FUNCTION warder.beat(me text, mine bigint, alive_ms bigint) RETURNS void
	LANGUAGE plpgsql AS $f$
	BEGIN
		UPDATE warder.keepers SET seen_at = clock_timestamp() WHERE id = me AND epoch = mine;
	END $f$;

	-- Which of these runs are revoked, and what has been spent of these meters.
	CREATE FUNCTION warder.news(me text, mine bigint, alive_ms bigint, runs text[], names text[])
	RETURNS TABLE (about_run text, about_meter text, spent bigint) LANGUAGE plpgsql AS $f$
	BEGIN
		RETURN QUERY SELECT v.run_id, NULL, 0::bigint FROM warder.revocations v
			WHERE v.run_id = ANY (runs)
			UNION ALL
			SELECT NULL, m.name, m.spent FROM warder.meters m WHERE m.name = ANY (names);
	END $f$;
END $schema$;
