internal import CoveCore

/// The catalog's tables, one step per schema version; steps are only ever added.
enum Schema {
    /// The version this program writes.
    static var version: Int { steps.count }

    /// Each step brings a catalog from the version of its index to the next.
    static let steps: [String] = [
        """
        CREATE TABLE meta(key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
        CREATE TABLE items(
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            kind INTEGER NOT NULL,
            mode INTEGER NOT NULL,
            uid INTEGER NOT NULL,
            gid INTEGER NOT NULL,
            rdev INTEGER NOT NULL,
            nlink INTEGER NOT NULL,       -- entries of a file; 2 + subdirectories of a directory; 0: an orphan
            size INTEGER NOT NULL,
            atime INTEGER NOT NULL,
            mtime INTEGER NOT NULL,
            ctime INTEGER NOT NULL,
            state INTEGER NOT NULL,       -- Residency
            generation INTEGER NOT NULL,  -- raised when bytes the provider has, or is being sent, change here
            version BLOB,                 -- the base version of bytes that are not here yet
            resident INTEGER NOT NULL,    -- bytes on this disk
            synced INTEGER NOT NULL,      -- 1 when they are known to be durable
            used INTEGER NOT NULL,        -- last use, seconds since 1970
            target BLOB,                  -- where a symbolic link points
            home BLOB                     -- directory and name it had before a remote change took them
        );
        CREATE INDEX items_resident ON items(used) WHERE resident > 0;
        CREATE INDEX items_orphans ON items(id) WHERE nlink = 0;
        CREATE TABLE entries(
            id INTEGER PRIMARY KEY AUTOINCREMENT,   -- also the readdir cookie
            parent INTEGER NOT NULL,
            name BLOB NOT NULL,
            item INTEGER NOT NULL,
            document BLOB NOT NULL,
            flags INTEGER NOT NULL,
            remote_id BLOB,               -- all remote_*: what the provider has acknowledged; NULL id: never uploaded
            remote_parent INTEGER,        -- where it is there, while that differs from here
            remote_name BLOB,
            remote_version BLOB,
            remote_metadata BLOB,
            remote_item INTEGER,          -- which bytes it has: the item and its generation
            remote_generation INTEGER,
            UNIQUE(parent, name)
        );
        CREATE INDEX entries_parent ON entries(parent);
        CREATE INDEX entries_item ON entries(item);
        CREATE INDEX entries_remote_id ON entries(remote_id) WHERE remote_id IS NOT NULL;
        CREATE INDEX entries_remote_place ON entries(remote_parent, remote_name) WHERE remote_parent IS NOT NULL;
        CREATE TABLE ranges(item INTEGER NOT NULL, start INTEGER NOT NULL, stop INTEGER NOT NULL,
            PRIMARY KEY(item, start)) WITHOUT ROWID;
        CREATE TABLE xattrs(item INTEGER NOT NULL, name BLOB NOT NULL, value BLOB NOT NULL,
            PRIMARY KEY(item, name)) WITHOUT ROWID;
        CREATE TABLE journal(
            entry INTEGER PRIMARY KEY,    -- a live entry that differs from what the provider has
            changed INTEGER NOT NULL,     -- milliseconds since 1970 of the last local change
            attempts INTEGER NOT NULL,
            retry INTEGER NOT NULL,       -- milliseconds since 1970
            sent INTEGER NOT NULL,        -- 1 when an attempt may have arrived without an answer
            error TEXT
        );
        CREATE INDEX journal_changed ON journal(changed);
        CREATE INDEX journal_retry ON journal(retry) WHERE retry > 0;
        CREATE TABLE trash(
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            document BLOB NOT NULL,
            path BLOB NOT NULL,
            kind INTEGER NOT NULL,
            item INTEGER,                 -- the item that keeps its bytes, where they are here
            size INTEGER NOT NULL,
            deleted INTEGER NOT NULL,     -- milliseconds since 1970
            pending INTEGER NOT NULL,     -- 1 while the provider has not been told
            remote_id BLOB,
            remote_parent INTEGER,
            remote_name BLOB,
            remote_version BLOB,
            place BLOB,                   -- path in the provider's trash
            attempts INTEGER NOT NULL,
            retry INTEGER NOT NULL,
            error TEXT
        );
        CREATE INDEX trash_pending ON trash(id, pending) WHERE pending = 1;
        CREATE INDEX trash_retry ON trash(retry) WHERE pending = 1 AND retry > 0;
        CREATE INDEX trash_remote_id ON trash(remote_id) WHERE pending = 1;
        CREATE INDEX trash_remote_place ON trash(remote_parent, remote_name) WHERE pending = 1;
        CREATE INDEX trash_item ON trash(item) WHERE item IS NOT NULL;
        CREATE TABLE conflicts(copy BLOB PRIMARY KEY, document BLOB NOT NULL, host TEXT NOT NULL, found INTEGER NOT NULL)
            WITHOUT ROWID;
        CREATE TABLE problems(path BLOB PRIMARY KEY, message TEXT NOT NULL) WITHOUT ROWID;
        CREATE TABLE changes(sequence INTEGER PRIMARY KEY, kind INTEGER NOT NULL, entry INTEGER NOT NULL,
            item INTEGER NOT NULL, parent INTEGER NOT NULL);
        """,
        """
        ALTER TABLE changes ADD COLUMN request INTEGER;   -- the kernel's request that made the change
        -- Open items without a name whose bytes are only at the provider, and the document that has them.
        CREATE TABLE departing(item INTEGER PRIMARY KEY, document BLOB NOT NULL);
        """,
        "CREATE INDEX entries_local ON entries(item) WHERE flags & 1;",
        """
        CREATE TABLE underway(        -- what was sent and not answered yet: where the document then is
            document BLOB PRIMARY KEY,
            parent INTEGER NOT NULL,
            name BLOB NOT NULL,
            kind INTEGER NOT NULL,
            new INTEGER NOT NULL,     -- 1 when the provider had not seen the document before
            size INTEGER NOT NULL,
            item INTEGER,             -- which bytes they are: the item and its generation
            generation INTEGER NOT NULL,
            mtime INTEGER NOT NULL
        ) WITHOUT ROWID;
        """,
        """
        CREATE TABLE unsettled(        -- files that the kernel may write to by itself, as they were when last looked at
            item INTEGER PRIMARY KEY,
            size INTEGER NOT NULL,
            mtime INTEGER NOT NULL,
            ctime INTEGER NOT NULL
        );
        """,
        """
        CREATE TABLE versions(            -- contents that documents had before
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            document BLOB NOT NULL,
            item INTEGER,                 -- the item that has the bytes; NULL: only the provider has them
            size INTEGER NOT NULL,
            mtime INTEGER NOT NULL,
            replaced INTEGER NOT NULL,    -- milliseconds since 1970
            host TEXT,                    -- the device that saved it, NULL where that is not known
            version BLOB                  -- what the provider calls it, NULL for what it never had
        );
        CREATE INDEX versions_document ON versions(document);
        CREATE INDEX versions_item ON versions(item) WHERE item IS NOT NULL;
        """,
        """
        ALTER TABLE journal ADD COLUMN held INTEGER NOT NULL DEFAULT 0;   -- 1: its folder is not sent yet; 2: nor will be
        ALTER TABLE journal ADD COLUMN folder INTEGER NOT NULL DEFAULT 0; -- 1 for a folder
        DROP INDEX journal_changed;
        DROP INDEX journal_retry;
        CREATE INDEX journal_due ON journal(changed, entry) WHERE retry = 0 AND held = 0;
        CREATE INDEX journal_folders ON journal(changed, entry) WHERE retry = 0 AND held = 0 AND folder = 1;
        CREATE INDEX journal_retry ON journal(retry) WHERE retry > 0 AND held = 0;
        CREATE INDEX journal_held ON journal(held) WHERE held > 0;
        CREATE INDEX journal_failed ON journal(entry) WHERE error IS NOT NULL;
        CREATE INDEX trash_due ON trash(id) WHERE pending = 1 AND retry = 0;
        -- What `held` and `folder` are to be. The triggers keep them so, whatever changes the tree or what is sent of it.
        CREATE VIEW journal_places AS SELECT e.id AS entry,
            CASE WHEN p.id IS NULL OR p.remote_id IS NOT NULL THEN 0 WHEN p.flags & 1 THEN 2
                ELSE coalesce((SELECT max(1, j.held) FROM journal j WHERE j.entry = p.id), 1) END AS held,
            coalesce((SELECT i.kind = 1 FROM items i WHERE i.id = e.item), 0) AS folder
            FROM entries e LEFT JOIN entries p ON p.item = e.parent;
        CREATE TRIGGER journal_added AFTER INSERT ON journal BEGIN
            UPDATE journal SET (held, folder) = (SELECT p.held, p.folder FROM journal_places p WHERE p.entry = NEW.entry)
                WHERE entry = NEW.entry AND EXISTS (SELECT 1 FROM entries WHERE id = NEW.entry);
        END;
        CREATE TRIGGER entries_added AFTER INSERT ON entries
            WHEN EXISTS (SELECT 1 FROM entries WHERE parent = NEW.item) BEGIN
            UPDATE journal SET held = CASE WHEN NEW.remote_id IS NOT NULL THEN 0 WHEN NEW.flags & 1 THEN 2 ELSE 1 END
                WHERE entry IN (SELECT id FROM entries WHERE parent = NEW.item);
        END;
        CREATE TRIGGER entries_sent AFTER UPDATE OF remote_id, flags ON entries
            WHEN (OLD.remote_id IS NULL) <> (NEW.remote_id IS NULL) OR (OLD.flags & 1) <> (NEW.flags & 1) BEGIN
            UPDATE journal SET held = CASE WHEN NEW.remote_id IS NOT NULL THEN 0 WHEN NEW.flags & 1 THEN 2 ELSE 1 END
                WHERE entry IN (SELECT id FROM entries WHERE parent = NEW.item);
        END;
        CREATE TRIGGER entries_moved AFTER UPDATE OF parent, item ON entries
            WHEN OLD.parent <> NEW.parent OR OLD.item <> NEW.item BEGIN
            UPDATE journal SET (held, folder) = (SELECT p.held, p.folder FROM journal_places p WHERE p.entry = NEW.id)
                WHERE entry = NEW.id;
        END;
        UPDATE journal SET (held, folder) = (SELECT p.held, p.folder FROM journal_places p WHERE p.entry = journal.entry)
            WHERE EXISTS (SELECT 1 FROM entries WHERE id = journal.entry);
        """,
        "CREATE INDEX entries_document ON entries(document);",
        """
        CREATE TABLE hidden(          -- what this device gave a hidden name at the provider, and when
            document BLOB PRIMARY KEY,
            since INTEGER NOT NULL
        ) WITHOUT ROWID;
        """,
        """
        ALTER TABLE underway ADD COLUMN sum INTEGER;   -- of the bytes, where they are not too many
        CREATE INDEX underway_place ON underway(parent, name);
        """,
        """
        CREATE INDEX entries_policy ON entries(id) WHERE flags & 58;
        -- What is to be kept on this disk: the items of entries whose policy is eager, of the root where that one is, and all
        -- below them whose own policy is no other.
        CREATE VIEW kept AS WITH RECURSIVE kept(item) AS (
            SELECT item FROM entries WHERE flags & 58 AND flags & 2
            UNION SELECT id FROM items WHERE id = 1
                AND EXISTS (SELECT 1 FROM meta WHERE key = 'policy' AND value = CAST('eagerly' AS BLOB))
            UNION SELECT e.item FROM kept k JOIN entries e ON e.parent = k.item WHERE e.flags & 24 = 0)
            SELECT item FROM kept;
        """,
        """
        CREATE TABLE given(           -- items of which the provider gave bytes, and has not heard that nobody uses them
            item INTEGER PRIMARY KEY,
            number INTEGER NOT NULL,  -- another one whenever it gives bytes after it was about to hear
            path BLOB NOT NULL        -- where it was at the provider then
        );
        """,
        """
        CREATE INDEX entries_name ON entries(name);
        CREATE INDEX items_unlisted ON items(id) WHERE kind = 1 AND state = 1;
        """,
        "CREATE INDEX conflicts_document ON conflicts(document);",
        """
        CREATE TABLE thumbnails(      -- pictures of documents, in files of their own
            document BLOB PRIMARY KEY,
            picture INTEGER NOT NULL, -- names the file; another one for each picture
            length INTEGER NOT NULL,  -- of the file, in bytes
            item INTEGER NOT NULL,    -- the bytes they show: the item, its generation,
            generation INTEGER NOT NULL,
            mtime INTEGER NOT NULL,   -- and, until the provider has these, when they were written, and how many they are
            size INTEGER NOT NULL,
            sent INTEGER NOT NULL,    -- 1: the provider has the bytes of that generation
            made INTEGER NOT NULL,    -- ThumbnailRow.Origin
            shared INTEGER NOT NULL,  -- 0: the provider is to get the picture
            place BLOB,               -- where and for which version the provider has it
            version BLOB,
            published TEXT,           -- its name in the desktop's cache
            published_mtime INTEGER,  -- and the time that the file has there
            used INTEGER NOT NULL,    -- last use, seconds since 1970
            checked INTEGER NOT NULL  -- 0: its document has changed somehow
        ) WITHOUT ROWID;
        CREATE INDEX thumbnails_item ON thumbnails(item);
        CREATE INDEX thumbnails_published ON thumbnails(published) WHERE published IS NOT NULL;
        CREATE INDEX thumbnails_place ON thumbnails(place) WHERE place IS NOT NULL;
        CREATE INDEX thumbnails_unchecked ON thumbnails(document) WHERE checked = 0;
        CREATE INDEX thumbnails_unshared ON thumbnails(document) WHERE shared = 0;
        CREATE TABLE wanted_thumbnails(document BLOB PRIMARY KEY) WITHOUT ROWID;   -- to be made and shared
        CREATE TABLE dropped_thumbnails(   -- those that the provider is to drop
            place BLOB PRIMARY KEY,
            version BLOB NOT NULL
        ) WITHOUT ROWID;
        CREATE TRIGGER thumbnails_content AFTER UPDATE OF generation, mtime, size ON items
            WHEN (new.generation <> old.generation OR new.mtime <> old.mtime OR new.size <> old.size)
                AND EXISTS (SELECT 1 FROM thumbnails WHERE item = old.id)
            BEGIN UPDATE thumbnails SET checked = 0 WHERE item = old.id; END;
        CREATE TRIGGER thumbnails_entry AFTER UPDATE OF parent, name, item, document, remote_parent, remote_name,
                remote_version ON entries
            WHEN EXISTS (SELECT 1 FROM thumbnails WHERE document IN (old.document, new.document))
            BEGIN UPDATE thumbnails SET checked = 0 WHERE document IN (old.document, new.document); END;
        CREATE TRIGGER thumbnails_removed AFTER DELETE ON entries
            WHEN EXISTS (SELECT 1 FROM thumbnails WHERE document = old.document)
            BEGIN UPDATE thumbnails SET checked = 0 WHERE document = old.document; END;
        CREATE TRIGGER thumbnails_below AFTER UPDATE OF parent, name, remote_parent, remote_name ON entries
            WHEN (new.parent <> old.parent OR new.name <> old.name OR new.remote_name IS NOT old.remote_name
                OR new.remote_parent IS NOT old.remote_parent)
                AND (SELECT kind FROM items WHERE id = new.item) = 1 AND EXISTS (SELECT 1 FROM thumbnails)
            BEGIN INSERT OR REPLACE INTO meta VALUES('thumbnails', X'31'); END;
        """,
        """
        CREATE TABLE container_names( -- folders of the root that have another name at the provider
            id TEXT PRIMARY KEY,      -- that name, the container's identifier
            alias BLOB NOT NULL UNIQUE,   -- the name here, as the provider is to understand it
            named TEXT,               -- what the container's document called it when it was heeded last
            shown BLOB                -- what its folder was called then
        ) WITHOUT ROWID;
        CREATE TABLE reference_documents( -- names under which apps have other documents
            id INTEGER PRIMARY KEY AUTOINCREMENT,   -- also the readdir cookie
            record TEXT NOT NULL UNIQUE,  -- the name of its document below _cove-drive, 32 hexadecimal digits
            container TEXT NOT NULL,  -- the container that has it
            folder BLOB NOT NULL,     -- the path of its folder in the container
            parent INTEGER,           -- that folder, where it is known here
            name BLOB NOT NULL,
            target BLOB,              -- the document that it stands for, where that is known here
            place BLOB NOT NULL,      -- the path of that document at the provider
            writes INTEGER NOT NULL,  -- 1: the app may change it
            made INTEGER NOT NULL,    -- milliseconds since 1970
            dirty INTEGER NOT NULL DEFAULT 0   -- 1: its document is to say so too
        );
        CREATE TABLE dropped_references(record TEXT PRIMARY KEY) WITHOUT ROWID;   -- whose documents are to go
        CREATE UNIQUE INDEX reference_names ON reference_documents(parent, name) WHERE parent IS NOT NULL;
        CREATE INDEX reference_targets ON reference_documents(target);
        CREATE TABLE grants(          -- which app may use which document that is not its own
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            app TEXT NOT NULL,
            document BLOB NOT NULL,
            writes INTEGER NOT NULL,
            source TEXT NOT NULL,     -- open, move or bookmark
            made INTEGER NOT NULL,
            record TEXT               -- the reference that it comes with
        );
        CREATE UNIQUE INDEX grants_app ON grants(app, document);
        CREATE INDEX grants_document ON grants(document);
        CREATE INDEX grants_record ON grants(record) WHERE record IS NOT NULL;
        CREATE TABLE scopes(          -- documents that apps may use for as long as they say so
            token TEXT PRIMARY KEY,
            app TEXT NOT NULL,
            document BLOB NOT NULL,
            made INTEGER NOT NULL     -- milliseconds since 1970
        ) WITHOUT ROWID;
        CREATE INDEX scopes_made ON scopes(app, made);
        CREATE TABLE scope_uses(      -- who says so, and how often
            token TEXT NOT NULL,
            process INTEGER NOT NULL,
            started INTEGER NOT NULL, -- when the process was started: its number comes again
            count INTEGER NOT NULL,
            PRIMARY KEY(token, process, started)
        ) WITHOUT ROWID;
        CREATE TABLE views(           -- programs that see what one app may, by their PID namespace
            namespace INTEGER PRIMARY KEY,
            app TEXT NOT NULL,
            process INTEGER NOT NULL
        );
        """,
        """
        CREATE TABLE excluded_places( -- names that stay on this device because a person said so, whatever has them
            parent INTEGER NOT NULL,
            name BLOB NOT NULL,
            asked INTEGER NOT NULL,   -- 0: only something excluded has been moved there
            vacated INTEGER,          -- since when nothing is known to have the name, in milliseconds since 1970
            PRIMARY KEY(parent, name)
        ) WITHOUT ROWID;
        -- Whatever gets such a name stays here from the same transaction on, unless the provider has it.
        CREATE TRIGGER excluded_added AFTER INSERT ON entries WHEN NEW.remote_id IS NULL AND NEW.flags & 1 = 0
            AND EXISTS (SELECT 1 FROM excluded_places WHERE parent = NEW.parent AND name = NEW.name) BEGIN
            UPDATE entries SET flags = flags | 1 WHERE id = NEW.id;
        END;
        CREATE TRIGGER excluded_moved AFTER UPDATE OF parent, name, flags, remote_id ON entries
            WHEN NEW.remote_id IS NULL AND NEW.flags & 1 = 0
            AND EXISTS (SELECT 1 FROM excluded_places WHERE parent = NEW.parent AND name = NEW.name) BEGIN
            UPDATE entries SET flags = flags | 1 WHERE id = NEW.id;
            DELETE FROM journal WHERE entry = NEW.id;
        END;
        -- What the provider has under such a name is the cloud's.
        CREATE TRIGGER excluded_taken AFTER INSERT ON entries WHEN NEW.remote_id IS NOT NULL BEGIN
            DELETE FROM excluded_places WHERE parent = NEW.parent AND name = NEW.name;
        END;
        CREATE TRIGGER excluded_retaken AFTER UPDATE OF parent, name ON entries
            WHEN NEW.remote_id IS NOT NULL AND (NEW.parent <> OLD.parent OR NEW.name <> OLD.name) BEGIN
            DELETE FROM excluded_places WHERE parent = NEW.parent AND name = NEW.name;
        END;
        CREATE TRIGGER excluded_gone AFTER DELETE ON items WHEN OLD.kind = 1 BEGIN
            DELETE FROM excluded_places WHERE parent = OLD.id;
        END;
        """,
        """
        CREATE TABLE unnamed(         -- files of O_TMPFILE that have no name yet: where they were made, and by which request
            item INTEGER PRIMARY KEY, directory INTEGER NOT NULL, request INTEGER NOT NULL);
        -- When an item was made, as far as anybody has told: for one of which nobody has, its date when it was first seen. 0 for
        -- one that an earlier version knew: it counts as its date of modification.
        ALTER TABLE items ADD COLUMN born INTEGER NOT NULL DEFAULT 0;
        """,
        """
        ALTER TABLE trash ADD COLUMN sent INTEGER NOT NULL DEFAULT 0;   -- 1 when the deletion may have arrived
        """,
    ]

    /// Brings a catalog to the current version; throws when it is from a newer program.
    static func migrate(_ database: Database, whenMigrating: () -> Void = {}) throws(Errno) -> SchemaOutcome {
        let found = Int(try database.first("PRAGMA user_version", read: { $0.int(0) }) ?? 0)
        guard found <= version else { return .tooNew(found) }
        for step in max(0, found)..<version {
            // On a line of its own: a step may end with a comment.
            try database.execute("BEGIN IMMEDIATE;\(steps[step])\n PRAGMA user_version = \(step + 1)")
            // Until it is committed, who does not know the step can go on.
            if step == found, found > 0 { whenMigrating() }
            try database.execute("COMMIT")
        }
        return .current
    }
}

/// Whether a catalog can be used by this program.
enum SchemaOutcome: Equatable {
    case current
    case tooNew(Int)
}
