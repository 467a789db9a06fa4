import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// Two devices change one thing.
    struct ConflictTests {
        @Test func `edits on both sides are both kept, here and at the source`() async throws {
            try await mounted { source in
                try source.save("doc.txt", Array("base\n".utf8))
            } _: { account in
                try account.shell("cat doc.txt; $COVE pause --state $STATE; echo here > doc.txt")
                try account.source.save("doc.txt", Array("elsewhere\n".utf8))
                try account.shell("$COVE resume --state $STATE")
                try account.expectSame()
                #expect(
                    try account.shell("cat *.txt | sort; ls | wc -l; ls doc*conflict*.txt | wc -l")
                        == "elsewhere\nhere\n2\n1\n"
                )
                #expect(try account.statistics().conflicts == 1)
            }
        }

        @Test func `what is deleted on one side and edited on the other stays`() async throws {
            try await mounted { source in
                for name in ["a", "b"] { try source.save(name, Array("base\n".utf8)) }
            } _: { account in
                try account.shell("cat a b; $COVE pause --state $STATE; echo here >> a; rm b")
                try account.source.remove("a")
                try account.source.save("b", Array("elsewhere\n".utf8))
                try account.shell("$COVE resume --state $STATE")
                try account.expectSame()
                #expect(try account.shell("cat a b") == "base\nhere\nelsewhere\n")
            }
        }

        @Test func `a program that writes into what another device has replaced loses nothing`() async throws {
            try await mounted { source in
                try source.save("log", Array("base\n".utf8))
            } _: { account in
                let writer = try account.start(
                    "exec 3<>log; mkfifo $tmp/go; cat <&3; read -r < $tmp/go; echo here >&3; exec 3>&-"
                )
                try waitUntil("the writer has it open") { writer.output == "base\n" }
                try account.source.save("log", Array("elsewhere\n".utf8))
                try waitUntil("the new one") { try account.shell("cat log") == "elsewhere\n" }
                try account.shell("echo > $tmp/go")
                #expect(try writer.wait(deadline: 20).status == 0)
                try account.expectSame()
                #expect(try account.shell("cat * | sort; ls | wc -l") == "base\nelsewhere\nhere\n2\n")
            }
        }

        @Test func `a database that another device replaces stays sound for those who have it open`() async throws {
            try await mounted { source in
                try Command.run("sqlite3", ["\(source.path)/db", "CREATE TABLE t(x); INSERT INTO t VALUES('base')"])
                try Command.run("cp", ["\(source.path)/db", "\(source.path)/../other"])
                try Command.run("sqlite3", ["\(source.path)/../other", "INSERT INTO t VALUES('elsewhere')"])
            } _: { account in
                try account.shell("mkfifo $tmp/go")
                let client = try account.start(
                    """
                    exec python3 -c '
                    import os, sqlite3
                    def connect(): return sqlite3.connect("db", isolation_level=None)
                    def show(*more): print([row[0] for row in db.execute("SELECT x FROM t")], *more, flush=True)
                    db = connect(); show()
                    open(os.environ["tmp"] + "/go").read()
                    show(db.execute("PRAGMA integrity_check").fetchone()[0])
                    try: db.execute("INSERT INTO t VALUES(1)")
                    except sqlite3.OperationalError as error: print(error)
                    db = connect(); db.execute("INSERT INTO t VALUES(?)", ("here",)); show()'
                    """
                )
                try waitUntil("it is open") { client.output == "['base']\n" }
                try account.shell("mv $tmp/other $src/db")
                try waitUntil("the new one") { try account.shell("sqlite3 db 'SELECT count(*) FROM t'") == "2\n" }
                try account.shell("echo > $tmp/go")
                // SQLite itself refuses to write into a file that has lost its name.
                #expect(
                    try client.wait(deadline: 30).output == """
                        ['base']
                        ['base'] ok
                        attempt to write a readonly database
                        ['base', 'elsewhere', 'here']

                        """
                )
                try account.expectSame()
                #expect(try account.shell("ls; sqlite3 $src/db 'PRAGMA integrity_check'") == "db\nok\n")
            }
        }
    }
}
