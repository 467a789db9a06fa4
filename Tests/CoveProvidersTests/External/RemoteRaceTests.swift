import CoveCore
import CoveProviders
import CoveTestSupport
import Testing

/// Changes of one name at the same instant, in a remote of rclone's, which knows no conditions.
@Suite struct RemoteRaceTests {
    private func outcome(_ body: () async throws -> RemoteItem) async throws -> RemoteItem? {
        do {
            return try await body()
        } catch ProviderError.filenameCollision {
            return nil
        }
    }

    /// What brings a hidden folder to light moves files to names that are being sent.
    @Test(arguments: RemoteKind.all)
    func `of a creation and a move to one name by one device neither loses its bytes`(kind: SourceKind) async throws {
        let devices = try await TwoDevices(kind)
        let device = devices.here
        for number in 0..<30 {
            let name = try #require(FileName("name \(number)"))
            let old = try await device.make("old \(number)", "moved \(number)")
            async let made = outcome { try await device.make("\(name)", "made \(number)") }
            async let moved = outcome {
                // The creation takes a few steps, and each is to be met.
                try await Task.sleep(for: TimeSpan.milliseconds(Int64(number % 15)))
                return try await device.move(
                    device.reference("old \(number)", old),
                    base: old.contentVersion,
                    to: .root,
                    name: name
                )
            }
            let (first, second) = try await (made, moved)
            try #require((first == nil) != (second == nil), "\(number): \(String(describing: (first, second)))")
            #expect(try await device.text("\(name)") == (first == nil ? "moved" : "made") + " \(number)")
            if second == nil { #expect(try await device.text("old \(number)") == "moved \(number)") }
        }
    }

    /// What gives a file new bytes gives the former ones a longer name for a moment, for which a crypt may have no room.
    @Test(arguments: RemoteKind.all)
    func `a file of a long name is changed and deleted`(kind: SourceKind) async throws {
        let devices = try await TwoDevices(kind)
        for length in [95, 120, 138] {
            let name = String(repeating: "n", count: length)
            let made = try await devices.here.make(name, "former")
            let changed = try await devices.here.modify(
                devices.here.reference(name, made),
                base: made.contentVersion,
                metadata: ItemMetadata(),
                content: MemorySource("changed and longer")
            )
            #expect(try await devices.there.text(name) == "changed and longer")
            try await devices.there.delete(
                devices.there.reference(name, changed),
                base: devices.there.find(name).contentVersion
            )
        }
        #expect(try await devices.source.names().isEmpty)
    }

    /// In the moment of its arrival another device may have put something else in its place, unseen by rclone.
    @Test func `an upload of which something else is found afterwards is a conflict`() throws {
        let script = """
            \(providerModule("cove-rclone"))
            import os, tempfile

            class Overtaken(module.Rclone):
                other = None
                rounds = False
                def arrived(self, path):
                    if self.rounds:
                        date = os.stat(files + "/" + path).st_mtime_ns // (2 * 10**9) * (2 * 10**9)
                        os.utime(files + "/" + path, ns=(date, date))
                    if self.other is not None:
                        other, self.other = self.other, None
                        os.unlink(files + "/" + path)
                        if other == "a folder":
                            os.mkdir(files + "/" + path)
                        else:
                            with open(files + "/" + path, "w") as file:
                                file.write(other)
                    return super().arrived(path)

            class Call:
                def __init__(self, text):
                    self.text = text
                def content(self):
                    return [self.text.encode()]
                def check(self):
                    pass

            for hash in None, "md5":
                with tempfile.TemporaryDirectory() as folder:
                    files = folder + "/files"
                    os.mkdir(files)
                    remote = Overtaken()
                    remote.hello({"options": {"remote": ":local:" + files}, "state": folder}, None)
                    remote.hash = hash
                    last = None
                    for number, other in enumerate(["theirs", None, "their1", None, "1234", "theirs, longer", "", "a folder"]):
                        remote.other = other
                        own = {"size": 4, "metadata": {"modified": 10**18 + number * 10**9}}
                        call = Call(f"our{number}")
                        try:
                            if last is None:
                                answer = remote.create({"directory": {"path": ""}, "name": "f", "kind": "file", **own}, call)
                            else:
                                answer = remote.modify({"item": {"path": "f"}, "version": last, **own}, call)
                            item = answer["item"]
                            assert other is None and item["size"] == 4 and item["metadata"] == own["metadata"], (hash, item)
                        except module.Failed as error:
                            kind = "filenameCollision" if last is None else "conflict"
                            assert error.kind == kind and other is not None, (hash, other, error)
                        there = remote.stat("f")
                        last = there.get("contentVersion")
                        if number == 0:
                            os.unlink(files + "/f")
                            last = None
                        if other is None:
                            assert item == there, (hash, item, there)
                    # A file system that keeps other dates than rclone says.
                    os.rmdir(files + "/f")
                    remote.create({"directory": {"path": ""}, "name": "f", "kind": "file", "size": 1}, Call("o"))
                    remote.rounds = True
                    for number in range(4):
                        own = {"size": 4, "metadata": {"modified": 10**18 + (2 * number + 1) * 10**9}}
                        there = remote.stat("f")
                        parameters = {"item": {"path": "f"}, "version": there["contentVersion"], **own}
                        assert remote.modify(parameters, Call(f"our{number}"))["item"] == remote.stat("f")
                        assert remote.date_slack == (1 if hash else 10**9)
                    remote.rounds, remote.other = False, "1234"
                    try:
                        remote.modify({"item": {"path": "f"}, **own}, Call("ours"))
                        assert False
                    except module.Failed as error:
                        assert error.kind == "conflict", error
            """
        try Command.run("python3", ["-c", script])
    }
}
