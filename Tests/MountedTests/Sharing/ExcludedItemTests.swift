import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// What people keep out of the cloud, by the command and by its attribute.
    struct ExcludedItemTests {
        private static let attribute = "user.cove.excluded-from-sync"

        @Test func `what is excluded stays on its device, and vim, sed, tar and git leave it there`() async throws {
            try await mounted(options: "settle=50ms", prepare: { try $0.write("known.txt", "known") }) { account in
                try account.shell(
                    "mkdir build full full/deep; echo first > .env; echo two > full/deep/two; $COVE sync --wait"
                )
                try account.shell("$COVE exclude .env known.txt full")
                try account.shell("mkdir node; $COVE exclude node; echo pack > node/pack; echo secret > .env")
                try account.expectRefusal("$COVE exclude none", "none: no such item; check the name")
                try account.settle()
                #expect(try account.source.names() == ["build"])
                #expect(try account.shell("cat .env known.txt node/pack full/deep/two") == "secret\nknownpack\ntwo\n")
                #expect(try account.shell("$COVE query 'IsExcludedFromSync == TRUE' --count") == "4\n")
                #expect(try account.shell("$COVE query 'IsUbiquitous == TRUE' --count") == "1\n")
                #expect(try account.shell("getfattr --only-values -n \(Self.attribute) .env") == "1")
                #expect(try account.shell("getfattr --only-values -n user.cove.is-ubiquitous full/deep/two") == "0")
                #expect(try account.shell("$COVE exclude --list") == ".env\nfull\nknown.txt\nnode\n")
                #expect(try account.cove("ls", as: [ItemStatus].self).filter { $0.isExcluded == true }.count == 4)
                #expect(try account.shell("$COVE status").contains("excluded:   4, which stay on this device"))
                // By programs that save in ways of their own.
                try account.shell(
                    """
                    vim -es -u NONE -c 'set backup writebackup backupcopy=no' -c 'normal Gomore' -c wq .env
                    sed -i s/known/changed/ known.txt
                    (cd node; git init -q; git add pack; git -c user.name=a -c user.email=a@b commit -qm one; tar cf pack.tar pack)
                    rm -r full; mkdir full; echo anew > full/two
                    mv node modules
                    """
                )
                try account.settle()
                #expect(try account.source.names() == ["build"])
                let content = "secret\nmore\nchangedanew\n"
                #expect(try account.shell("cat .env known.txt full/two") == content)
                // What is in the cloud is copied into it, and deleted there.
                try account.shell("echo tool > tool; $COVE sync --wait; mv tool modules/tool; mv build modules")
                try account.settle()
                #expect(try account.source.names() == [])
                try account.killDaemon()
                try account.shell("echo again >> known.txt; sed -i s/again/again/ known.txt")
                try account.settle()
                #expect(try account.shell("cat .env full/two modules/tool") == "secret\nmore\nanew\ntool\n")
                #expect(try account.source.names() == [])
                try account.shell(
                    "$COVE include .env modules full node; setfattr -n \(Self.attribute) -v 0 known.txt"
                )
                try account.settle()
                #expect(try account.shell("$COVE exclude --list") == "")
                try account.expectSame(without: [".env~"])
                #expect(try account.source.names().contains("modules"))
            }
        }

        @Test func `another device's items get the names of excluded ones, which stay beside them`() async throws {
            try await mounted(options: "settle=50ms") { account in
                try account.shell("ls > $tmp/out; mkdir node; touch f; $COVE exclude node f")
                try account.shell("echo secret > node/x; echo secret > f")
                try account.settle()
                try account.shell("echo theirs > $src/f; mkdir $src/node; echo open > $src/node/x")
                try waitUntil("they are here") { (try? account.shell("cat f node/x")) == "theirs\nopen\n" }
                #expect(try account.shell("cat f*conflict* node*conflict*/x") == "secret\nsecret\n")
                try account.shell("echo more >> f*conflict*; cd node*conflict*; echo more > y")
                try account.settle()
                #expect(try account.source.names() == ["f", "node"])
                #expect(try account.shell("$COVE exclude --list | grep -c conflict") == "2\n")
            }
        }

        @Test func `who may not is refused, and what can't be excluded says why`() async throws {
            try await mounted(options: "settle=50ms") { account in
                try account.shell(
                    """
                    $COVE app register com.acme.a; $COVE container create com.acme.a --app com.acme.a --name Acme > $tmp/out
                    echo one > Acme/Documents/one; echo mine > mine; chmod 666 mine; $COVE sync --wait
                    """
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
                try account.settle()
                #expect(try account.shell("cat $src/com.acme.a/Documents/one $src/mine") == "one\nmine\n")
                // An app keeps what is its own.
                try account.shell("$COVE run --app com.acme.a -- setfattr -n \(Self.attribute) -v 1 Documents/one")
                try account.settle()
                try account.expectRefused("cat $src/com.acme.a/Documents/one", "No such file")
                #expect(try account.shell("cat Acme/Documents/one") == "one\n")
            }
        }
    }
}
