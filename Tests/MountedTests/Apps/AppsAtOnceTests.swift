import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension MountedInCompany {
    /// Apps, containers and references that many change at the same time.
    struct AppsAtOnceTests {
        /// Runs lines of bash, all at the same time; each must succeed.
        private func atOnce(_ account: MountedAccount, _ lines: [String]) throws {
            let started = lines.map { "( \($0) ) & p+=($!)" }.joined(separator: "\n")
            try account.shell("p=()\n\(started)\nfor i in ${p[@]}; do wait $i || exit 1; done")
        }

        private func record<Record: Decodable>(_ name: String, in account: MountedAccount) throws -> Record {
            try JSONValue(parsing: Array(account.shell("cat _cove-drive/\(name).json").utf8)).decode()
        }

        @Test func `an app has all containers that are made at the same time, and none is made twice`() async throws {
            try await mounted(options: "settle=50ms") { account in
                try atOnce(
                    account,
                    (1...6).map { "$COVE container create com.one.box\($0) --app com.one.app --name b\($0) --public" }
                )
                let declared: AppRecord = try record("apps/com.one.app", in: account)
                #expect(declared.containers.map(\.text).sorted() == (1...6).map { "com.one.box\($0)" })
                #expect(try account.shell("ls") == (1...6).map { "b\($0)\n" }.joined())
                // Of several apps that ask for one identifier one has it, and the others are told so.
                let scratch = try TemporaryDirectory()
                let file = scratch.path + "/got"
                let asked = (1...6).map {
                    "$COVE container create com.wanted.box --app com.app\($0).app && touch \(file)\($0) || true"
                }
                try atOnce(account, asked)
                let winners = try FileManager.default.contentsOfDirectory(atPath: scratch.path)
                #expect(winners.count == 1)
                let owner: ContainerRecord = try record("containers/com.wanted.box", in: account)
                #expect(["got\(owner.app.text.dropFirst(7).dropLast(4))"] == winners)
            }
        }

        @Test func `a container hidden while its folder is renamed is hidden and has its new name`() async throws {
            try await mounted(options: "settle=50ms") { account in
                try account.cove("container create com.one.box --app com.one.app --name box0 --public")
                for round in 1...12 {
                    let word = round.isMultiple(of: 2) ? "publish" : "hide"
                    try atOnce(
                        account,
                        ["mv box\(round - 1) box\(round)", "$COVE container \(word) com.one.box"]
                    )
                    try waitUntil("its document says both", deadline: 30) {
                        let said: ContainerRecord = try record("containers/com.one.box", in: account)
                        return said.name == "box\(round)" && said.isPublic == round.isMultiple(of: 2)
                    }
                    #expect(try account.shell("ls") == (round.isMultiple(of: 2) ? "box\(round)\n" : ""))
                }
            }
        }

        @Test func `documents that are given at the same time are all given, each once`() async throws {
            try await mounted(options: "settle=50ms") { account in
                try account.addApp("one", document: "own.txt", "own\n")
                for index in 1...5 { try account.shell("echo text\(index) > doc\(index)") }
                try atOnce(
                    account,
                    (1...5).flatMap { index in
                        Array(repeating: "$COVE pick --app com.one.app --mode open --choose doc\(index)", count: 2)
                    }
                )
                try account.shell("$COVE sync --wait")
                let told = account.source.path
                #expect(
                    try account.shell("cat one/Documents/doc*; ls \(told)/_cove-drive/references | wc -l")
                        == (1...5).map { "text\($0)\n" }.joined() + "5\n"
                )
                #expect(try account.cove("grants ls").split(separator: "\n").count == 5)
            }
        }

        @Test func `what another device gives for the first time is found, whenever it comes`() async throws {
            try await mounted(options: "settle=50ms") { account in
                try account.addApp("one", document: "own.txt", "own\n")
                try account.shell("echo text > doc; $COVE sync --wait")
                // Nothing of what is read now says that there are references.
                #expect(try account.cove("grants ls") == "")
                let said = ReferenceRecord(
                    container: try #require(AppIdentifier("com.one.box")),
                    folder: RemotePath([DriveFolder.documents]),
                    name: FileName(unchecked: Array("given".utf8)),
                    target: RemotePath([FileName(unchecked: Array("doc".utf8))]),
                    isReadOnly: false,
                    made: Date().timeIntervalSince1970
                )
                let text = String(decoding: try JSONValue(encoding: said).bytes, as: UTF8.self)
                try account.source.write("_cove-drive/references/\(DocumentID.random()).json", text)
                try waitUntil("it is found", deadline: 30) {
                    try account.shell("cat one/Documents/given 2>/dev/null || true") == "text\n"
                }
            }
        }
    }
}
