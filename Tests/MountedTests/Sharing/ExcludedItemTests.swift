import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// What people keep out of the cloud, by the command and by its attribute.
    struct ExcludedItemTests {
        private static let attribute = "user.cove.excluded-from-sync"

        @Test func `what is excluded stays on its device, and vim, tar and git leave it there`() async throws {
            try await mounted(options: "settle=50ms", prepare: { try $0.write("known.txt", "known") }) { account in
                try account.shell("cat known.txt; mkdir build; echo secret > .env; $COVE sync --wait")
                try account.shell("$COVE exclude .env known.txt")
                try account.shell("mkdir node; $COVE exclude node; echo pack > node/pack")
                try account.expectRefusal("$COVE exclude none", "none: no such item; check the name")
                try account.settle()
                #expect(try account.source.names() == ["build"])
                #expect(try account.shell("cat .env known.txt node/pack") == "secret\nknownpack\n")
                #expect(try account.shell("$COVE query 'IsExcludedFromSync == TRUE' --count") == "3\n")
                #expect(try account.shell("getfattr --only-values -n \(Self.attribute) .env") == "1")
                #expect(try account.cove("ls", as: [ItemStatus].self).filter { $0.state == "local" }.count == 3)
                // By programs that save in ways of their own.
                try account.shell(
                    """
                    vim -es -u NONE -c 'set backup writebackup backupcopy=no' -c 'normal Gomore' -c wq .env
                    sed -i s/known/changed/ known.txt
                    (cd node; git init -q; git add pack; git -c user.name=a -c user.email=a@b commit -qm one; tar cf pack.tar pack)
                    mv node modules
                    """
                )
                try account.settle()
                #expect(try account.source.names() == ["build"])
                #expect(try account.shell("cat .env known.txt") == "secret\nmore\nchanged")
                try account.killDaemon()
                #expect(try account.shell("cat .env known.txt") == "secret\nmore\nchanged")
                try account.shell("$COVE include .env modules; setfattr -n \(Self.attribute) -v 0 known.txt")
                try account.settle()
                try account.expectSame(without: [".env~"])
                #expect(try account.source.names().contains("modules"))
            }
        }

        @Test func `who may not is refused, and what can't be excluded says why`() async throws {
            try await mounted(options: "settle=50ms") { account in
                try account.shell(
                    """
                    $COVE app register com.acme.a; $COVE container create com.acme.a --app com.acme.a --name Acme > $tmp/out
                    echo one > Acme/Documents/one; mkdir full; echo f > full/f; echo mine > mine; chmod 666 mine; $COVE sync --wait
                    """
                )
                try account.expectRefusal(
                    "$COVE exclude full",
                    "full: something in it is in the cloud; exclude a new folder instead, "
                        + "and put there what is to stay here"
                )
                try account.expectRefusal(
                    "$COVE exclude Acme",
                    "Acme: a container can't be excluded; exclude what is in it"
                )
                try account.expectRefused("setfattr -n \(Self.attribute) -v 1 .", "Invalid argument")
                try account.expectRefused("setfattr -n \(Self.attribute) -v maybe mine", "Invalid argument")
                try account.expectRefused(
                    "setpriv --reuid=65534 --regid=65534 --clear-groups setfattr -n \(Self.attribute) -v 1 mine",
                    "denied"
                )
                let asked = try account.shell(
                    "$COVE run --app com.acme.a -- setfattr -n \(Self.attribute) -v 1 Documents/one 2>&1 || true"
                )
                #expect(asked.contains("Operation not permitted"), "\(asked)")
                try account.settle()
                #expect(
                    try account.shell("cat $src/com.acme.a/Documents/one $src/full/f $src/mine") == "one\nf\nmine\n"
                )
            }
        }
    }
}
