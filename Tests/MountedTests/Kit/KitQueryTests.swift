import CoveCore
import CoveKit
import CoveTestSupport
import Foundation
import Synchronization
import Testing

extension Mounted {
    /// `MetadataQuery`, as programs use it.
    struct KitQueryTests {
        /// The events of a query, as words.
        private final class Events: Sendable {
            private let events = Mutex<[MetadataQuery.Event]>([])

            init(_ query: MetadataQuery) {
                let stream = query.events
                Task { [self] in
                    for await event in stream { events.withLock { $0.append(event) } }
                    ended.store(true, ordering: .releasing)
                }
            }

            private let ended = Atomic<Bool>(false)
            var hasEnded: Bool { ended.load(ordering: .acquiring) }

            var all: [String] {
                events.withLock { $0 }.map { event in
                    switch event {
                    case .didStartGathering: "start"
                    case .gatheringProgress: "progress"
                    case .didFinishGathering: "finish"
                    case .didUpdate: "update"
                    case .didFail(let error): "fail \(error.code)"
                    }
                }
            }

            var updates: [MetadataQuery.Update] {
                events.withLock { $0 }.compactMap { if case .didUpdate(let update) = $0 { update } else { nil } }
            }
        }

        private func names(_ query: MetadataQuery) -> [String] { query.results.map { $0.url.lastPathComponent } }

        private func query(_ account: MountedAccount, _ predicate: MetadataPredicate) -> MetadataQuery {
            let query = MetadataQuery(in: URL(fileURLWithPath: account.mount))
            query.predicate = predicate
            query.notificationBatchingInterval = 0
            return query
        }

        @Test func `44. a query starts once and with a predicate, gathers, finishes and goes on`() async throws {
            try await blocking {
                let account = try MountedAccount()
                try account.start()
                let query = MetadataQuery(in: URL(fileURLWithPath: account.mount))
                #expect(!query.start() && !query.isStarted)
                query.notificationBatchingInterval = 0
                query.predicate = MetadataKey.fsName.ends(with: ".txt")
                let events = Events(query)
                #expect(query.isStarted && !query.start())
                try waitUntil("it finishes") { events.all.last == "finish" }
                #expect(events.all == ["start", "finish"] && !query.isGathering && query.resultCount == 0)
                try account.shell("echo one > a.txt")
                try waitUntil("the file is there") { names(query) == ["a.txt"] && query.result(at: 0)?[.fsSize] == 4 }
                #expect(query.result(at: 0)?.url.path == account.mount + "/a.txt" && query.result(at: 1) == nil)
                try account.shell("mv a.txt b.txt")
                try waitUntil("it is moved") { names(query) == ["b.txt"] }
                #expect(events.updates.flatMap(\.removed).isEmpty && events.updates.flatMap(\.added).count == 1)
                // Another predicate begins again.
                query.predicate = MetadataKey.fsName == "b.txt" || MetadataKey.fsSize > 100
                try waitUntil("it finishes again") { events.all.filter { $0 == "finish" }.count == 2 }
                #expect(names(query) == ["b.txt"] && events.all.filter { $0 == "start" }.count == 2)
                query.stop()
                let told = events.all
                try account.shell("rm b.txt")
                #expect(query.isStopped && names(query) == ["b.txt"] && events.all == told)
                #expect(query.start())
                try waitUntil("it is gone") { !query.isGathering && query.resultCount == 0 }
                try account.end()
                try waitUntil("it fails") { events.all.last?.hasPrefix("fail") == true }
                #expect(query.isStopped)
            }
        }

        @Test func `43. scopes are those of the account`() async throws {
            try await blocking {
                let account = try MountedAccount()
                try account.shell("mkdir -p $src/Documents/d; echo 1 > $src/Documents/d/a.txt; echo 2 > $src/b.txt")
                try account.start()
                let query = query(account, MetadataKey.fsName.ends(with: ".txt"))
                let events = Events(query)
                for (scopes, expected): (Set<MetadataQuery.Scope>, [String]) in [
                    ([], ["a.txt", "b.txt"]), ([.ubiquitousDocuments], ["a.txt"]), ([.ubiquitousData], ["b.txt"]),
                    ([.accessibleUbiquitousExternalDocuments], []),
                    ([.ubiquitousData, .ubiquitousDocuments], ["a.txt", "b.txt"]),
                ] {
                    query.searchScopes = scopes
                    try waitUntil("\(scopes): \(names(query)), \(events.all)") {
                        !query.isGathering && names(query).sorted() == expected
                    }
                }
                #expect(query.results.allSatisfy { $0[.downloadingStatus] == MetadataDownloadingStatus.notDownloaded })
                #expect(try account.statistics().downloadsStarted == 0)
                // A document of another app, by the reference that an app has to it.
                for app in ["one", "two"] { try account.addApp(app, document: "\(app).txt", "text") }
                try account.pick("one/Documents/one.txt", for: "two")
                query.searchScopes = [.accessibleUbiquitousExternalDocuments]
                try waitUntil("the external one is found: \(names(query))") { names(query) == ["one.txt"] }
                let external = try #require(query.results.first)
                #expect(external[.isExternalDocument] == true && external[.containerDisplayName] == "one")
                #expect(external.url.path == "\(account.mount)/one/Documents/one.txt")
                #expect(external[.urlInLocalContainer] == "file://\(account.mount)/two/Documents/one.txt")
                #expect(external.accessibleURL.path == "\(account.mount)/two/Documents/one.txt")
                // By its own name for it the app learns all that is promised.
                let keys: Set<URLResourceKey> = [.isUbiquitousItemKey, .documentIdentifierKey, .typeIdentifierKey]
                let own = try await PromisedItem.resourceValues(ofItemAt: external.accessibleURL, forKeys: keys)
                #expect(try await PromisedItem.resourceValues(ofItemAt: external.url, forKeys: keys) == own)
                #expect(own[.isUbiquitousItemKey] == .bool(true) && own[.typeIdentifierKey] == .string("text/plain"))
                query.stop()
                try account.end()
            }
        }

        @Test func `45. results stay while updates are disabled, and one update carries what came meanwhile`()
            async throws
        {
            try await blocking {
                let account = try MountedAccount()
                try account.start()
                try account.shell("echo 1 > a.txt; echo 1 > b.txt")
                let query = query(account, try MetadataPredicate(format: "%K LIKE[c] %@", "FSName", "*.TXT"))
                let events = Events(query)
                try waitUntil("it finishes") { !query.isGathering && names(query) == ["a.txt", "b.txt"] }
                // What was sent meanwhile is a change, too.
                try account.settle()
                try waitUntil("they are sent") { query.results.allSatisfy { $0[.isUploaded] == true } }
                query.disableUpdates()
                query.disableUpdates()
                try account.shell("$COVE pause; rm a.txt; echo 22 > b.txt; echo 3 > c.txt; echo > d.txt; rm d.txt")
                let other = self.query(account, MetadataKey.fsName == "c.txt")
                #expect(other.start())
                try waitUntil("another query has it") { names(other) == ["c.txt"] }
                for (set, name) in [(MetadataPredicate.isPending, "pending"), (.isMaterialized, "materialized")] {
                    let sets = self.query(account, set)
                    #expect(sets.start())
                    try waitUntil("the \(name) set is found") { names(sets).sorted() == ["b.txt", "c.txt"] }
                }
                query.enableUpdates()
                #expect(names(query) == ["a.txt", "b.txt"])
                query.enableUpdates()
                func update() -> MetadataQuery.Update? { events.updates.first { !$0.removed.isEmpty } }
                try waitUntil("the update comes") { update() != nil && names(query) == ["b.txt", "c.txt"] }
                #expect(update()?.removed.map(\.url.lastPathComponent) == ["a.txt"])
                #expect(update()?.added.map(\.url.lastPathComponent) == ["c.txt"])
                #expect(update()?.changed.map { $0[.fsSize] } == [3])
                query.enumerateResults { item, index in
                    #expect(query.index(of: item) == index)
                    return true
                }
                query.stop()
                other.stop()
                try account.end()
            }
        }

        @Test func `a frozen query finishes when it may show its results, and ends with whoever has it`() async throws {
            try await blocking {
                let account = try MountedAccount()
                try account.start()
                try account.shell("echo 1 > a.txt")
                var query: MetadataQuery? = query(account, MetadataKey.fsName == "a.txt")
                query?.disableUpdates()
                let events = Events(try #require(query))
                let other = self.query(account, MetadataKey.fsName == "a.txt")
                #expect(other.start())
                try waitUntil("another query finishes") { !other.isGathering }
                #expect(events.all == ["start"] && query?.isGathering == true && query?.resultCount == 0)
                query?.enableUpdates()
                try waitUntil("\(events.all)") { events.all == ["start", "progress", "finish"] }
                #expect(query?.resultCount == 1)
                query = nil
                try waitUntil("its sequence ends") { events.hasEnded }
                other.stop()
                try account.end()
            }
        }

        @Test func `51. orders, value lists and groups are right and follow`() async throws {
            try await blocking {
                let account = try MountedAccount()
                try account.start()
                try account.shell("mkdir d; echo 1 > c.txt; echo 22 > b.pdf; echo 22 > a.txt; echo 333 > d/e.pdf")
                let query = query(account, MetadataKey.kind == "file")
                query.attributes = ["FSName"]
                query.sortDescriptors = [.init(MetadataKey.fsSize, ascending: false), .init(MetadataKey.fsName)]
                query.valueListAttributes = ["ContentType", "kMDItemFSSize"]
                query.groupingAttributes = ["ContentType", "FSSize"]
                let events = Events(query)
                try waitUntil("\(events.all)") { names(query) == ["e.pdf", "a.txt", "b.pdf", "c.txt"] }
                func counts(_ name: String) -> [String] {
                    (query.valueLists[name] ?? []).map { tuple in
                        switch tuple.value {
                        case .string(let text)?: "\(text) \(tuple.count)"
                        case .number(let number)?: "\(Int(number)) \(tuple.count)"
                        default: "none \(tuple.count)"
                        }
                    }
                }
                #expect(counts("ContentType") == ["application/pdf 2", "text/plain 2"])
                #expect(counts("kMDItemFSSize") == ["2 1", "3 2", "4 1"])
                let groups = query.groupedResults
                #expect(groups.map(\.value) == [.string("application/pdf"), .string("text/plain")])
                #expect(groups.first?.subgroups?.map(\.value) == [.number(3), .number(4)])
                #expect(groups.last?.subgroups?.last?.results.map(\.url.lastPathComponent) == ["a.txt"])
                #expect(groups.first?.subgroups?.first?.subgroups == nil)
                try account.shell("echo 55555 > c.txt; mv b.pdf b.txt")
                try waitUntil("they follow") {
                    names(query) == ["c.txt", "e.pdf", "a.txt", "b.txt"]
                        && counts("ContentType") == ["application/pdf 1", "text/plain 3"]
                }
                #expect(query.value(ofAttribute: "FSSize", forResultAt: 0) == .number(6))
                query.stop()
                try account.end()
            }
        }

        @Test func `results outlive a daemon, and notifications tell what events do`() async throws {
            try await blocking {
                let account = try MountedAccount()
                try account.start()
                try account.shell("echo 1 > a.txt; echo 1 > b.txt")
                let query = query(account, MetadataKey.fsName.isLike("*.txt"))
                let posted = Mutex<[String]>([])
                let names: [Notification.Name] = [
                    .metadataQueryDidStartGathering, .metadataQueryDidFinishGathering, .metadataQueryDidUpdate,
                ]
                let observers = names.map { name in
                    NotificationCenter.default.addObserver(forName: name, object: query, queue: nil) { notification in
                        let removed = notification.userInfo?[MetadataQuery.updateRemovedItemsKey] as? [MetadataItem]
                        let urls = (removed ?? []).map(\.url.lastPathComponent)
                        posted.withLock { $0.append(([notification.name.rawValue] + urls).joined(separator: " ")) }
                    }
                }
                defer { observers.forEach { NotificationCenter.default.removeObserver($0) } }
                let events = Events(query)
                try waitUntil("it finishes") { !query.isGathering && query.resultCount == 2 }
                try account.killDaemon()
                try account.shell("rm a.txt")
                try waitUntil("the next daemon tells") { self.names(query) == ["b.txt"] }
                try account.shell("$COVE upgrade; rm b.txt")
                try waitUntil("and the next one: \(events.all), \(self.names(query))") { query.resultCount == 0 }
                #expect(events.all.filter { $0 == "start" || $0 == "finish" } == ["start", "finish"])
                try waitUntil("\(events.all)") {
                    events.updates.flatMap(\.removed).map(\.url.lastPathComponent) == ["a.txt", "b.txt"]
                }
                try waitUntil("\(posted.withLock { $0 })") {
                    posted.withLock { posted in
                        posted.contains("NSMetadataQueryDidUpdateNotification a.txt")
                            && posted.contains("NSMetadataQueryDidUpdateNotification b.txt")
                            && posted.first == "NSMetadataQueryDidStartGatheringNotification"
                            && posted.filter { $0 == "NSMetadataQueryDidFinishGatheringNotification" }.count == 1
                    }
                }
                query.stop()
                try account.end()
            }
        }

        @Test func `54. the sample finds its document wherever it is, makes it once, and opens none of two`()
            async throws
        {
            try await blocking {
                let account = try MountedAccount()
                try account.start()
                let sample = try Command.built("FindOrCreate")
                let line = "\(account.mount)/Documents/test.txt: (default value)\n"
                #expect(try account.shell("\(sample) $mnt test.txt") == line)
                #expect(try account.shell("\(sample) $mnt/Documents test.txt; ls Documents") == line + "test.txt\n")
                try account.shell("mkdir other; mv Documents/test.txt other; echo -n changed > other/test.txt")
                #expect(try account.shell("\(sample) $mnt test.txt") == "\(account.mount)/other/test.txt: changed\n")
                try account.shell("cp other/test.txt .")
                let several = try account.start("\(sample) $mnt test.txt").wait(deadline: 60)
                #expect(several.status == 1 && several.output.contains("there are several documents called test.txt"))
                #expect(try account.shell("ls Documents") == "")
                try account.end()
            }
        }

        @Test func `57. promised values of many items come at once, and fetch nothing`() async throws {
            try await blocking {
                let account = try MountedAccount()
                try account.shell(
                    "mkdir -p $src/d.key; head -c 5000 /dev/zero > $src/a.pdf; touch -d @1000000000 $src/a.pdf; ln -s a.pdf $src/l"
                )
                try account.start()
                let urls = ["a.pdf", "none", "d.key", "l"].map { URL(fileURLWithPath: account.mount + "/" + $0) }
                let outside = URL(fileURLWithPath: "/etc/passwd")
                let unknown = URLResourceKey(rawValue: "NSURLColourKey")
                let keys: Set<URLResourceKey> = [
                    .nameKey, .fileSizeKey, .contentModificationDateKey, .isRegularFileKey, .isDirectoryKey,
                    .isPackageKey,
                    .isSymbolicLinkKey, .fileResourceTypeKey, .ubiquitousItemDownloadingStatusKey, .isUbiquitousItemKey,
                    .typeIdentifierKey, .documentIdentifierKey, .tagNamesKey, .contentAccessDateKey,
                    .generationIdentifierKey, .fileAllocatedSizeKey, .localizedTypeDescriptionKey, .labelNumberKey,
                    .labelColorKey, .localizedLabelKey, .ubiquitousItemIsSharedKey,
                    .ubiquitousSharedItemCurrentUserRoleKey, .ubiquitousSharedItemCurrentUserPermissionsKey,
                    .ubiquitousSharedItemOwnerNameComponentsKey,
                    .ubiquitousSharedItemMostRecentEditorNameComponentsKey, unknown,
                ]
                let results = await PromisedItem.resourceValues(ofItemsAt: urls + [outside], forKeys: keys)
                let file = try #require(try results.first?.get())
                #expect(file[.nameKey] == .string("a.pdf") && file[.fileSizeKey] == .number(5000))
                #expect(file[.contentModificationDateKey] == .date(Date(timeIntervalSince1970: 1_000_000_000)))
                #expect(file[.ubiquitousItemDownloadingStatusKey] == .string("NotDownloaded"))
                #expect(
                    file[.isUbiquitousItemKey] == .bool(true) && file[.typeIdentifierKey] == .string("application/pdf")
                )
                #expect(file[.isPackageKey] == .bool(false) && file[.fileAllocatedSizeKey] == .number(0))
                #expect(file[.localizedTypeDescriptionKey] == .string("PDF document"))
                #expect(file[.labelNumberKey] == .number(0) && file[.ubiquitousItemIsSharedKey] == .bool(false))
                #expect(file[.ubiquitousSharedItemCurrentUserRoleKey] == .string("owner"))
                #expect(file[.ubiquitousSharedItemCurrentUserPermissionsKey] == .string("readWrite"))
                for key: URLResourceKey in [
                    .contentAccessDateKey, .generationIdentifierKey, .tagNamesKey, .labelColorKey, .localizedLabelKey,
                    .ubiquitousSharedItemOwnerNameComponentsKey, .ubiquitousSharedItemMostRecentEditorNameComponentsKey,
                ] {
                    #expect(file[key] == .some(nil), "\(key)")
                }
                #expect(file[unknown] == nil && file.count == keys.count - 1)
                #expect(throws: CoveError.self) { try results[1].get() }
                let folder = try results[2].get()
                #expect(folder[.isDirectoryKey] == .bool(true) && folder[.isPackageKey] == .bool(true))
                #expect(folder[.localizedTypeDescriptionKey] == .string("folder"))
                let link = try results[3].get()
                #expect(link[.isSymbolicLinkKey] == .bool(true) && link[.typeIdentifierKey] == .string("inode/symlink"))
                let other = try results[4].get()
                #expect(other[.isUbiquitousItemKey] == .bool(false) && other[.documentIdentifierKey] == .some(nil))
                #expect(other[.ubiquitousItemIsSharedKey] == .some(nil))
                #expect(await PromisedItem.isReachable(urls[0]))
                #expect(await !PromisedItem.isReachable(urls[1]))
                try account.shell("setfattr -n user.cove.tags -v mine,red,blue a.pdf")
                let tagKeys: Set<URLResourceKey> = [.tagNamesKey, .labelNumberKey, .localizedLabelKey]
                let tags = try await PromisedItem.resourceValues(ofItemAt: urls[0], forKeys: tagKeys)
                #expect(
                    tags == [
                        .tagNamesKey: .strings(["mine", "red", "blue"]), .labelNumberKey: .number(6),
                        .localizedLabelKey: .string("red"),
                    ]
                )
                #expect(try account.statistics().downloadsStarted == 0)
                try account.end()
            }
        }

        @Test func `what can't be asked is told`() async throws {
            try await blocking {
                #expect(throws: CoveError.self) { try MetadataPredicate(format: "FSName ==") }
                #expect(throws: CoveError.self) { try MetadataPredicate(format: "%K == %@", "Size", "x") }
                #expect(throws: CoveError.self) { try MetadataPredicate(format: "%K == %@", "FSName") }
                let outside = MetadataQuery(in: URL(fileURLWithPath: "/"))
                outside.predicate = MetadataPredicate(value: true)
                let events = Events(outside)
                try waitUntil("it fails") { events.all.last == "fail \(CoveError.Code.notSupported)" }
                let account = try MountedAccount()
                try account.start()
                let query = query(account, MetadataPredicate(value: true))
                let told = Events(query)
                try waitUntil("all is found") { told.all.last == "finish" }
                query.attributes = ["Colour"]
                try waitUntil("it fails") { told.all.last?.hasPrefix("fail") == true }
                #expect(query.isStopped && query.results.isEmpty)
                query.attributes = []
                // As large as anybody writes it, and what is no number.
                let names = (0..<60).map { MetadataKey.fsName == "\($0)" }
                for predicate in [
                    names.dropFirst().reduce(names[0]) { $0 || $1 }, names.dropFirst().reduce(names[0]) { $1 && $0 },
                    !(!(!names[0])), names[1..<40].reduce(names[0]) { ($0 || $1) && $1 },
                    MetadataKey.fsName.isIn((0..<1500).map { "name \($0)" }), MetadataKey.fsSize.isIn([.nan, 1]),
                    MetadataKey.fsSize == .nan, MetadataKey.fsSize <= .infinity,
                    MetadataKey.kind.isIn([]), MetadataPredicate(value: false),
                ] {
                    let count = told.all.filter { $0 == "finish" }.count
                    query.predicate = predicate
                    query.start()
                    try waitUntil("\(predicate): \(told.all)") { told.all.filter { $0 == "finish" }.count > count }
                }
                query.predicate = nil
                #expect(query.isStopped && !query.start())
                try account.end()
            }
        }
    }
}
