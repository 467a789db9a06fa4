// swift-tools-version: 6.2
import PackageDescription

let settings: [SwiftSetting] = [
    .treatAllWarnings(as: .error),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("InternalImportsByDefault"),
]

let package = Package(
    name: "cove",
    products: [
        .executable(name: "cove", targets: ["cove"]),
        .executable(name: "cove-keeper", targets: ["cove-keeper"]),
        .library(name: "CoveKit", targets: ["CoveKit"]),
    ],
    targets: [
        .systemLibrary(name: "CLinux", path: "Sources/CLinux"),
        .systemLibrary(
            name: "CFuse",
            path: "Sources/CFuse",
            pkgConfig: "fuse3",
            providers: [.apt(["libfuse3-dev"])]
        ),
        .systemLibrary(
            name: "CSQLite",
            path: "Sources/CSQLite",
            pkgConfig: "sqlite3",
            providers: [.apt(["libsqlite3-dev"])]
        ),
        .systemLibrary(
            name: "CCurl",
            path: "Sources/CCurl",
            pkgConfig: "libcurl",
            providers: [.apt(["libcurl4-openssl-dev"])]
        ),
        .systemLibrary(
            name: "CExpat",
            path: "Sources/CExpat",
            pkgConfig: "expat",
            providers: [.apt(["libexpat1-dev"])]
        ),
        .systemLibrary(
            name: "CCrypto",
            path: "Sources/CCrypto",
            pkgConfig: "libcrypto",
            providers: [.apt(["libssl-dev"])]
        ),
        .systemLibrary(
            name: "CSodium",
            path: "Sources/CSodium",
            pkgConfig: "libsodium",
            providers: [.apt(["libsodium-dev"])]
        ),
        .target(name: "CoveCore", dependencies: ["CLinux"], exclude: ["README.md"], swiftSettings: settings),
        .target(
            name: "CoveClaims",
            dependencies: ["CoveCore"],
            exclude: ["README.md"],
            swiftSettings: settings
        ),
        .target(
            name: "CoveEngine",
            dependencies: ["CoveCore", "CoveClaims", "CSQLite", "CSodium", "CLinux"],
            exclude: ["README.md"],
            swiftSettings: settings
        ),
        .target(
            name: "CoveProviders",
            dependencies: ["CoveCore", "CLinux", "CCurl", "CExpat", "CCrypto"],
            exclude: ["README.md"],
            swiftSettings: settings
        ),
        .target(
            name: "CoveMount",
            dependencies: ["CoveCore", "CoveEngine", "CFuse", "CLinux"],
            exclude: ["README.md"],
            swiftSettings: settings
        ),
        .target(
            name: "CovePicker",
            dependencies: ["CoveCore", "CLinux"],
            exclude: ["README.md"],
            swiftSettings: settings
        ),
        .executableTarget(
            name: "cove",
            dependencies: ["CoveCore", "CoveEngine", "CoveProviders", "CoveMount", "CovePicker", "CLinux"],
            exclude: ["README.md"],
            swiftSettings: settings
        ),
        .executableTarget(
            name: "cove-keeper",
            dependencies: ["CoveCore", "CLinux"],
            exclude: ["README.md"],
            swiftSettings: settings
        ),
        .target(
            name: "CoveKit",
            dependencies: ["CoveCore", "CoveClaims"],
            exclude: ["README.md"],
            swiftSettings: settings
        ),
        .executableTarget(
            name: "DocumentPicker",
            dependencies: ["CoveKit"],
            path: "Sources/Samples/DocumentPicker",
            swiftSettings: settings
        ),
        .executableTarget(
            name: "FindOrCreate",
            dependencies: ["CoveKit"],
            path: "Sources/Samples/FindOrCreate",
            swiftSettings: settings
        ),
        .executableTarget(
            name: "ResolveConflict",
            dependencies: ["CoveKit"],
            path: "Sources/Samples/ResolveConflict",
            swiftSettings: settings
        ),
        .executableTarget(
            name: "TextDocument",
            dependencies: ["CoveKit"],
            path: "Sources/Samples/TextDocument",
            swiftSettings: settings
        ),
        .target(
            name: "CoveTestSupport",
            dependencies: ["CoveCore", "CoveEngine", "CLinux"],
            path: "Tests/CoveTestSupport",
            swiftSettings: settings
        ),
        .testTarget(name: "CoveCoreTests", dependencies: ["CoveCore", "CoveTestSupport"], swiftSettings: settings),
        .testTarget(
            name: "CoveClaimsTests",
            dependencies: ["CoveClaims", "CoveCore", "CoveTestSupport"],
            swiftSettings: settings
        ),
        .testTarget(
            name: "CovePickerTests",
            dependencies: ["CovePicker", "CoveCore", "CoveTestSupport"],
            swiftSettings: settings
        ),
        .testTarget(
            name: "CoveKitTests",
            dependencies: [
                "CoveKit", "CoveKitDriver", "FindOrCreate", "ResolveConflict", "TextDocument", "CoveCore",
                "CoveTestSupport",
            ],
            swiftSettings: settings
        ),
        .executableTarget(
            name: "CoveKitDriver",
            dependencies: ["CoveKit"],
            path: "Tests/CoveKitDriver",
            swiftSettings: settings
        ),
        .executableTarget(
            name: "PowerLossDriver",
            dependencies: ["CoveCore", "CoveEngine", "CoveProviders", "CoveTestSupport"],
            path: "Tests/PowerLoss/Driver",
            swiftSettings: settings
        ),
        .testTarget(
            name: "PowerLoss",
            dependencies: ["PowerLossDriver", "CoveCore", "CoveTestSupport"],
            path: "Tests/PowerLoss",
            exclude: ["Driver", "README.md", "power.c"],
            swiftSettings: settings
        ),
        .testTarget(
            name: "CoveEngineTests",
            dependencies: ["CoveEngine", "CoveProviders", "CoveTestSupport", "CLinux"],
            swiftSettings: settings
        ),
        .testTarget(
            name: "CoveProvidersTests",
            dependencies: ["CoveProviders", "CoveTestSupport", "CLinux"],
            swiftSettings: settings
        ),
        .executableTarget(
            name: "CrashDriver",
            dependencies: ["CoveCore", "CoveEngine", "CoveProviders", "CoveTestSupport"],
            path: "Tests/CrashRig/Driver",
            swiftSettings: settings
        ),
        .testTarget(
            name: "CrashRig",
            dependencies: ["CrashDriver", "CoveCore", "CoveTestSupport"],
            path: "Tests/CrashRig",
            exclude: ["Driver", "README.md", "stop.c"],
            swiftSettings: settings
        ),
        .testTarget(
            name: "MountedTests",
            dependencies: [
                "CoveCore", "CoveKitDriver", "FindOrCreate", "ResolveConflict", "TextDocument", "CoveTestSupport",
                "CLinux",
            ],
            exclude: ["Clouds/clock.c", "Sharing/cut.c", "Survival/death.c"],
            swiftSettings: settings
        ),
    ],
    swiftLanguageModes: [.v6]
)
