import CoveCore
import CoveProviders
import CoveTestSupport
import Testing

extension ConformanceTests {
    @Test(arguments: SourceKind.racing)
    func `another device's changes are told`(kind: SourceKind) async throws {
        let devices = try await TwoDevices(kind)
        guard devices.here.changeSignal != nil else { return }
        _ = try await devices.here.names()
        let follower = try await Follower(devices.here)
        let made = try await devices.there.make("file", "first")
        try await follower.wait(forUpdate: "file")
        let second = try await devices.there.modify(
            devices.there.reference("file", made),
            base: made.contentVersion,
            metadata: ItemMetadata(),
            content: MemorySource("second")
        )
        try await follower.wait { events in
            events.contains { change in
                guard case .updated(let item, _) = change else { return false }
                return item.contentVersion == second.contentVersion
            }
        }
        _ = try await devices.there.move(
            devices.there.reference("file", second),
            base: second.contentVersion,
            to: .root,
            name: #require(FileName("moved"))
        )
        try await follower.wait { $0.updates.contains("moved") && $0.removals.contains("file") }
        try await devices.there.delete(devices.there.reference("moved"), base: second.contentVersion)
        try await follower.wait(forRemoval: "moved")
    }

    @Test(arguments: SourceKind.racing)
    func `of two writers on one base exactly one wins, and the other hears of it`(kind: SourceKind) async throws {
        let devices = try await TwoDevices(kind)
        guard devices.here.capabilities.conditionalWrites else { return }
        var current = try await devices.here.make("file", "start")
        for round in 0..<20 {
            let base = current
            let texts = ["here \(round)", "there \(round)"]
            let results = await withTaskGroup(of: (String, Result<RemoteItem, ProviderError>).self) { group in
                for (provider, text) in zip([devices.here, devices.there], texts) {
                    group.addTask {
                        do throws(ProviderError) {
                            let item = try await provider.modify(
                                provider.reference("file", base),
                                base: base.contentVersion,
                                metadata: ItemMetadata(),
                                content: MemorySource(text)
                            )
                            return (text, .success(item))
                        } catch {
                            return (text, .failure(error))
                        }
                    }
                }
                return await group.reduce(into: []) { $0.append($1) }
            }
            let won = results.filter { if case .success = $0.1 { true } else { false } }
            try #require(won.count == 1, "\(results)")
            for case (_, .failure(let error)) in results {
                guard case .conflict = error else {
                    Issue.record("the loser hears: \(error)")
                    continue
                }
            }
            current = try await devices.here.find("file")
            #expect(try await devices.here.text("file") == won[0].0)
            #expect(current.contentVersion == (try won[0].1.get()).contentVersion)
        }
        #expect(try await devices.here.names() == ["file"])
    }

    @Test(arguments: SourceKind.racing)
    func `of two that create one name exactly one wins`(kind: SourceKind) async throws {
        let devices = try await TwoDevices(kind)
        for round in 0..<20 {
            let made = await withTaskGroup(of: RemoteItem?.self) { group in
                for provider in [devices.here, devices.there] {
                    group.addTask { try? await provider.make("file \(round)", "text") }
                }
                return await group.reduce(into: []) { if let item = $1 { $0.append(item) } }
            }
            #expect(made.count == 1)
        }
        #expect(try await devices.here.names().count == 20)
    }

    /// What became of one device's attempt, once nobody was in its way any more.
    private func outcome(
        _ body: () async throws -> RemoteItem
    ) async throws -> RemoteItem? {
        for _ in 0..<50 {
            do {
                return try await body()
            } catch ProviderError.busy {
                try await Task.sleep(for: TimeSpan.milliseconds(50))
            } catch ProviderError.filenameCollision {
                return nil
            }
        }
        throw ProviderError.busy
    }

    @Test(arguments: SourceKind.racing)
    func `names that three devices make at the same instant, a hundred times, lose nobody's bytes`(
        kind: SourceKind
    ) async throws {
        let devices = try await TwoDevices(kind)
        let third = try devices.source.provider()
        try await third.start()
        let all: [any Provider] = [devices.here, devices.there, third]
        try await devices.here.makeDirectory("folder")
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<100 {
                if number >= 4 { try await group.next() }
                group.addTask {
                    let name = "folder/file \(number)"
                    let made = try await withThrowingTaskGroup(of: (String, RemoteItem)?.self) { attempts in
                        for (place, provider) in all.enumerated() {
                            let text = "\(number) of device \(place)"
                            attempts.addTask {
                                try await outcome { try await provider.make(name, text) }.map { (text, $0) }
                            }
                        }
                        var made: [(text: String, item: RemoteItem)] = []
                        for try await item in attempts { if let item { made.append(item) } }
                        return made
                    }
                    // All others know that theirs are not there.
                    try #require(made.count == 1, "\(name): \(made.map(\.text))")
                    let text = try await devices.here.text(name, made[0].item.contentVersion)
                    #expect(text == made[0].text)
                }
            }
            try await group.waitForAll()
        }
        #expect(try await devices.there.names("folder").count == 100)
    }

    @Test(arguments: SourceKind.racing)
    func `of a creation and a move to one name neither loses its bytes`(kind: SourceKind) async throws {
        let devices = try await TwoDevices(kind)
        for number in 0..<20 {
            let name = try #require(FileName("name \(number)"))
            let old = try await devices.here.make("old \(number)", "moved \(number)")
            async let made = outcome { try await devices.there.make("\(name)", "made \(number)") }
            async let moved = outcome {
                try await devices.here.move(
                    devices.here.reference("old \(number)", old),
                    base: number.isMultiple(of: 2) ? nil : old.contentVersion,
                    to: .root,
                    name: name
                )
            }
            let (first, second) = try await (made, moved)
            try #require((first == nil) != (second == nil), "\(number): \(String(describing: (first, second)))")
            #expect(try await devices.here.text("\(name)") == (first == nil ? "moved" : "made") + " \(number)")
            if second == nil { #expect(try await devices.here.text("old \(number)") == "moved \(number)") }
        }
    }
}
